"""Explores small worlds exhaustively, with the machines that run in production: `doyen check`."""
