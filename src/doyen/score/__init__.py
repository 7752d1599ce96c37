"""Who ought to lead: what makes one node a better leader than another, and how a machine rates itself."""
