"""Decides which LEADER counts.  [CTOL Alg. 1, line 24, and §IV-B]

Ambiguity [CTOL]: the pseudo-code overwrites, so that a late LEADER undoes a newer one; the text keeps the lowest
  hash, so that Hybrid keeps a leader that it has rejected since.  Neither is safe.  Here the greatest
  (term, lower initiator, later incarnation of it, sequence) counts, whatever arrives in which order.
"""

from doyen.election.churn.messages import Record


def supersedes(offered: Record, held: Record | None) -> bool:
    """Whether a node goes over from the record that it holds to the offered one; never back, as the order is total."""
    if held is None:
        return True
    if offered.election != held.election:
        return offered.election.outranks(held.election)
    return offered.sequence > held.sequence
