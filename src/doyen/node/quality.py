"""A node that rates itself: its elections are given what it measures of its own machine.  [MADM §6.2]"""

import asyncio
from collections.abc import Callable, Iterable

from doyen.core.clock import FOREVER, to_seconds
from doyen.core.rank import ScoreGiven
from doyen.net.driver import Driver
from doyen.node.config import NodeConfig
from doyen.score.rating import own_quality, rating_of


class SelfRating:
    """Gives elections the quality of this machine: measured anew when one asks, and once per comparison of leaders.

    Machines read no files, so each measurement reaches them as an input, `ScoreGiven`.
    """

    def __init__(self, driver: Driver, config: NodeConfig, channels: Callable[[], Iterable[str]]) -> None:
        self._driver, self._channels = driver, channels
        self._rating = rating_of(config.attributes, config.measures)
        kinds = [kind for kind in config.election_kinds().values() if kind.asks_oracle]
        self._every = min((kind.compares_every(config.table(kind.table)) for kind in kinds), default=FOREVER)
        self._given: dict[str, float] = {}  # The last value given, by channel.
        self._refresh: asyncio.TimerHandle | None = None
        driver.on_close(self._close)

    def start(self) -> None:
        """Keep what was given fresh, where the election compares leaders at all."""
        if self._every < FOREVER and self._driver.running:
            self._refresh = asyncio.get_running_loop().call_later(to_seconds(self._every), self._give_again)

    def answer(self, channel: str, number: int) -> None:
        """Measure, and answer a `ScoreWanted` of that number."""
        self._given[channel] = value = own_quality(self._rating)
        self._driver.tell(ScoreGiven(number, value), channel=channel)

    def _give_again(self) -> None:
        value = own_quality(self._rating)
        for channel in self._channels():
            if self._given.get(channel) != value:
                self._given[channel] = value
                self._driver.tell(ScoreGiven(0, value), channel=channel)
        self.start()

    def _close(self) -> None:
        if self._refresh is not None:
            self._refresh.cancel()
