"""Elections say who leads: one folder each.  A further one is a folder, and an entry point (see `examples/bully`)."""
