"""The views for people: lanes of time as data, and the files of a node's page.  Loaded when somebody looks."""
