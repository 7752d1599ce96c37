"""Elections by a directory that all members reach."""
