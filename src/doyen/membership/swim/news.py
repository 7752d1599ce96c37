"""Sends news to a few members at once, and again at intervals, instead of waiting for probes to carry them.

Deviation [SWIM §4.1]: the paper gossips on probes alone; so does this with `gossip_interval` 0 (decision 29).
"""

from random import Random

from doyen.core.clock import Instant
from doyen.core.effects import Out
from doyen.membership.swim.config import SwimConfig
from doyen.membership.swim.dissemination import Post
from doyen.membership.swim.messages import Gossip, NewsAreSent
from doyen.membership.swim.roster import Roster


class News:
    """The rumours that are still to be repeated, and whether a timer will send them again."""

    def __init__(self, config: SwimConfig, roster: Roster, post: Post, out: Out, rng: Random) -> None:
        self._config, self._roster, self._post, self._out, self._rng = config, roster, post, out, rng
        self._is_timed = False

    def send(self, now: Instant) -> None:
        """Send what is new to a few members, unless a timer is about to do it."""
        config, rumours = self._config, self._post.rumours
        if self._is_timed or not rumours:
            return
        others = self._roster.random_present(self._rng, config.gossip_count, frozenset())
        for other in others:
            if rumours:
                self._post.send(other, Gossip)
        if others and rumours:
            self._is_timed = True
            self._out.set_timer(NewsAreSent(), now + config.gossip_interval)

    def on_due(self, now: Instant) -> None:
        """Send what was not repeated often enough yet."""
        self._is_timed = False
        self.send(now)
