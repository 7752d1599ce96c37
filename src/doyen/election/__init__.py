"""Who leads: one folder per election.  A further one is a folder, and an entry point (see `examples/bully`)."""
