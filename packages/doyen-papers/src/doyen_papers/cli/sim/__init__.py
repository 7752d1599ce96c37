"""The studies of `doyen sim`."""
