"""One process of a group: `join()`, its elections, its events, its HTTP and its control socket."""
