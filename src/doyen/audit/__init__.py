"""Holds recordings of real nodes against a specification of POLE's safety: `doyen audit`."""
