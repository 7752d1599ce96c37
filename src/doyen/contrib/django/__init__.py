"""Run a management command or a function on one process of many: `manage.py onleader`.

INSTALLED_APPS = [..., "doyen.contrib.django"]
DOYEN = {"group": "reports", "seeds": ["10.0.0.2"]}          # What a configuration file of doyen has.

manage.py onleader clearsessions
manage.py onleader --function shop.jobs:close_day
"""
