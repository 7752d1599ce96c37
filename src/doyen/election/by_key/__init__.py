"""The owner of a well-known key leads: a leader that costs no election.  Begin with `machine.py`."""
