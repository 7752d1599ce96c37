"""The commands that this package adds to `doyen`, by entry points of the group `doyen.commands`."""
