"""The waits of a voter: longer after failures in a row, and where its disk is slow."""

from typing import Final

from doyen.core.clock import Duration
from doyen.election.pole.config import PoleConfig
from doyen.election.pole.promise import Voter

DOUBLED_MAX: Final = 4  # How often a wait is doubled.


class Patience:
    """Counts claims, and waits for one, that came to nothing since there was a leader."""

    def __init__(self, config: PoleConfig, voter: Voter) -> None:
        self._config, self._voter = config, voter
        self.vain = 0

    def stretched(self, wait: Duration) -> Duration:
        """Return how long to wait for what takes that long on the network that was configured.

        The second failure in a row doubles it, and so does each further one: the network, or a disk, may be slower.
        """
        return wait << min(max(self.vain - 1, 0), DOUBLED_MAX)

    @property
    def for_answers(self) -> Duration:
        """Return how long a claim, or its answer, may take: other disks may write as slowly as this one's."""
        return self.stretched(self._config.answer_timeout + self._voter.write_time)

    @property
    def for_a_claim(self) -> Duration:
        """Return how long a claim may wait for its majority."""
        return self.stretched(self._config.claim_timeout + self._voter.write_time)
