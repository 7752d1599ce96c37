"""What people look at: lanes of time as data, and the files of a node's page.  Loaded when somebody looks."""
