"""Elections that a store decides."""
