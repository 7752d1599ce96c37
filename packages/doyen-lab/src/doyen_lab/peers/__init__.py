"""Other people's systems, unmodified, started and measured beside ours: each process in a namespace of its own."""
