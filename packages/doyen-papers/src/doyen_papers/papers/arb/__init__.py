"""[ARB], reproduced."""
