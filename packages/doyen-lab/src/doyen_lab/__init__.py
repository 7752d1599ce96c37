"""Real processes under faults, judged by what their election promises; and doyen measured beside its peers."""
