"""Announce-listen elections: LE-A, LE-S and LE-M.  Begin with `machine.py`."""
