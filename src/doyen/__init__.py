"""doyen: a membership list and a leader for any set of processes, without a coordination cluster."""

__version__ = "0.1.0"
