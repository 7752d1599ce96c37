"""How many views lack a member: c, estimated from digests of views.  Beyond [CTOL §III-A].

(placeholder: the estimator follows)
"""

from msgspec import Struct


class MissingEstimated(Struct, frozen=True):
    """A fact for elections: so many views may lack a member, with this confidence."""

    missing_max: int
    confidence: float
    sample_count: int
