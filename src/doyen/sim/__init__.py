"""Made-up time: the machines of many nodes, on a network with faults; the same seed gives the same run."""
