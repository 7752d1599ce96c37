"""Drop-ins for other packages; each module needs the package that it is named after, and `import doyen` loads none."""
