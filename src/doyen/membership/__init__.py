"""Memberships, which say who is here: one folder each, and the parts that several of them share."""
