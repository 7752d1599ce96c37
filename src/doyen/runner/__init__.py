"""`doyen run`: a command that runs only while this process leads, and a guard that sees to it."""
