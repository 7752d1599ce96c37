"""The papers behind doyen: closed forms, studies in the simulator, and every table and figure beside ours."""
