"""Who is here: one folder per membership, and the parts that several of them share."""
