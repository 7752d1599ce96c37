"""Scores, which say who ought to lead, and how a machine rates itself."""
