"""Closed forms and bounds from the papers: pure functions, no clock, no chance."""
