"""A quorum without a leader says which of its voters are silent, and again when that changes, at a bounded rate."""

from types import SimpleNamespace
from typing import Any

from doyen.core.clock import Instant, seconds
from doyen.core.ids import NodeId, Term
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.node.config import NodeConfig
from doyen.node.majority import SAY_AFTER, SAY_EVERY, MajorityWatch
from doyen.node.registry import find_election
from doyen.node.reign import Reign

VOTERS = ("ant", "bee", "cat")


def test_silent_voters_are_named_and_again_when_others_are_silent() -> None:
    heard: set[str] = set()
    said: list[tuple[str, Instant]] = []
    book = SimpleNamespace(heard_since=lambda instant: set(heard))
    driver: Any = SimpleNamespace(addresses=book, host=SimpleNamespace(node="ant"))
    reigns = {"": Reign("", "election", find_election("quorum"), NodeId("ant"))}
    reigns["mail"] = Reign("mail", "election/mail", find_election("gossip"), NodeId("ant"))
    config = NodeConfig(group="g", name="ant", election="quorum", voters=VOTERS, volatile=True)
    stack: Any = SimpleNamespace(reigns=reigns)
    watch = MajorityWatch(driver, config, stack, lambda reign, text, now: said.append((text, now)))
    for now in range(0, seconds(60), seconds(1)):
        if now == seconds(7):
            heard.add("dog")  # No voter.
        if now == seconds(8):
            heard.add("bee")
        watch.look(now)
    (first, first_at), (second, second_at) = said
    assert first_at == SAY_AFTER and second_at == first_at + SAY_EVERY
    assert first.startswith("1 of 3 voters answers here, 2 must; silent: bee, cat; start them, or give")
    assert second.startswith("2 of 3 voters answer here, but none leads") and reigns[""].silence == second
    term = Term(1, NodeId("bee"))
    reigns[""].note(LeaderElected(term), seconds(60))
    watch.look(seconds(60))
    assert reigns[""].silence == "" and len(said) == 2
    reigns[""].note(LeaderLost(term, "silent"), seconds(61))
    heard.clear()
    watch.look(seconds(61))
    watch.look(seconds(61) + SAY_AFTER)
    assert said[2:] == [(first, seconds(61) + SAY_AFTER)]
