"""What a Python program sees of doyen; its names are those of `doyen` itself."""
