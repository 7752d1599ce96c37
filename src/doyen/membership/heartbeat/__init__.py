"""Gossiped heartbeats.  Begin with `machine.py`."""
