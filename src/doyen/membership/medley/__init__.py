"""Medley: SWIM for networks of many hops.  Begin with `machine.py`."""

from doyen.membership.medley.config import MedleyConfig as MedleyConfig
from doyen.membership.medley.machine import Hops as Hops
from doyen.membership.medley.machine import Medley as Medley
from doyen.membership.medley.targets import Distance as Distance
from doyen.membership.medley.targets import NearFirst as NearFirst
