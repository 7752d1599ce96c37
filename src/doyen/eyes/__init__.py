"""What people look at: lanes of time as data, and the files of a node's page that draw them.  Loaded when somebody looks."""
