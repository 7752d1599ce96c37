"""Medley: SWIM for networks of many hops.  Begin with `machine.py`."""
