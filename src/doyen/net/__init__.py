"""Real sockets, files and clocks: `driver` runs a node's machines on them."""
