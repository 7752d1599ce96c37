"""What a message looks like on the wire."""

import pytest

from doyen.core.codec import SHORT, Codec
from doyen.core.ids import Incarnation, NodeId
from doyen.core.rank import shortest
from doyen.election.announce.messages import Announcement
from doyen.errors import ConfigError


def test_the_commonest_channels_are_written_in_one_letter() -> None:
    codec = Codec("group")
    for channel in (*SHORT, "elsewhere"):
        codec.speak(channel, Announcement)
        data = codec.encode(NodeId("n"), Incarnation(1), channel, Announcement(1, 2))
        envelope = codec.decode(data)
        assert (envelope.channel, envelope.message) == (channel, Announcement(1, 2))
        assert (channel.encode() in data) == (channel not in SHORT)
    for short in SHORT.values():
        with pytest.raises(ConfigError, match="give another name"):
            codec.speak(short, Announcement)


@pytest.mark.parametrize("standing", [0.0, -0.0, 7.0, -3.0, 2.5, 2.0**61, 1e-9, 12, -(2**62)])
def test_a_whole_standing_is_said_in_few_bytes_and_is_the_same(standing: float) -> None:
    short = shortest(standing)
    assert short == standing and isinstance(short, int) == float(standing).is_integer()
    of = lambda value: len(Codec("g").encode(NodeId("n"), Incarnation(1), "c", Announcement(1, value)))  # noqa: E731
    assert of(short) <= of(float(standing))
