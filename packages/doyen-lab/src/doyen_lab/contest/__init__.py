"""Ours and other people's systems beside each other: who acts as leader, at what price, how soon after a fault."""
