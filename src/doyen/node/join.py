"""`doyen.join(...)`: arguments become a configuration, and the configuration a node.

async with doyen.join("orders", seeds=["10.0.0.2"]) as node:
    async with node.lead() as term:
        await work()
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

from doyen.core.clock import parse_duration
from doyen.core.kinds import ElectionChoice, MembershipChoice, Network
from doyen.errors import ConfigError
from doyen.membership.notes import check_words
from doyen.node.arguments import NodeFields, chosen, path, several
from doyen.node.callbacks import Callback
from doyen.node.layers import by_path, configure
from doyen.node.node import Node
from doyen.node.registry import ElectionName, MembershipName
from doyen.node.scoring import EVERY_MIN, Score, as_function

# By `join`, besides fields.
ALSO_TAKEN = ("score", "score_every", "key", "config", "control", "leave_on_sigterm", "on_elected", "on_lost", "will")


def join(
    group: str,
    *,
    name: str | None = None,
    bind: str | None = None,
    advertise: str | None = None,
    multicast: str | None = None,
    interface: str | None = None,
    seeds: Sequence[str] = (),
    membership: MembershipName | MembershipChoice | None = None,
    election: ElectionName | ElectionChoice | None = None,
    elections: Mapping[str, ElectionName | ElectionChoice] | Sequence[str] = (),
    voters: Sequence[str] = (),
    newcomer: bool | None = None,
    score: Score | None = None,
    score_every: str | float = "5s",
    eligible: bool | None = None,
    meta: Mapping[str, str] | None = None,
    key: str | Path | None = None,
    state: str | Path | None = None,
    preset: Network | None = None,
    config: str | Path | None = None,
    leave_on_sigterm: bool = True,
    control: bool = True,
    on_elected: Callback | None = None,
    on_lost: Callback | None = None,
    will: bool = False,
    **fields: Unpack[NodeFields],
) -> Node:
    """Return a node that joins with `async with`.  Every field of a configuration file may be given by name too.

    group: the name of the group, the same on every member.
    name: the name of this process, unique in its group; by default the host's name and the process id.
    bind: where to listen, host:port; by default loopback, or everywhere if others are elsewhere.
    advertise: where others reach this process, host:port; by default where it listens.
    multicast: the group's multicast address, host:port.
    interface: the interface for multicast; by default the one that `bind` names.
    seeds: other members as host:port, names too (port 7600 if none is given); one that answers is enough.
    membership: how the list of members is kept: `"swim"`, or `doyen.Swim(period="500ms")`; by default what the election
        needs.
    election: who leads: `"gossip"` (hybrid, the default), `"fast"`, `"quorum"`, or `doyen.Hybrid(missing_max=3)`.
    elections: further elections: names, or `{"mail": doyen.Announce()}`.
    voters: for `"quorum"`: the names of all voters, the same on every member; `name` is one of them.
    newcomer: for `"quorum"`: your word that this name has never voted in this group; needed at its first start.
    score: a number, or a function (also `async`) that is called every `score_every`; the greatest leads.
    score_every: the time between two calls of `score`.
    eligible: False: this process does not lead while another can; in a `"quorum"` it votes, and never leads.
    meta: what the others shall know of this process, texts to texts, at most 512 bytes; also what `node.leader` shows.
    key: the group's key file (`doyen keys new`); without it packets are not authenticated.
    state: a directory for what must survive restarts; `"quorum"` needs one.
    preset: the timers: `"local"` for one machine, `"lan"` (the default), `"wan"`, `"iot"`.
    config: a TOML file; what is given here wins over it.
    leave_on_sigterm: whether this node leaves in order when the process gets SIGTERM.
    control: whether commands of the same user (`doyen members`) may ask this node.
    on_elected: called with the term (also `async`) whenever this process may act as the group's leader.
    on_lost: called with that term when it is over.
    will: whether a small process keeps this one's resignation, and sends it if this one is killed while it leads; for
        `"quorum"`, and for a program that starts no other process.

    Processes of one user on one machine find each other; `find_local=False` turns that off.
    Before its first act a node waits for silent seeds, up to `alone_after="10s"`, and until `expect=3` members answer.
    Durations are texts (`"200ms"`) or seconds.  What cannot work is a `doyen.ConfigError`, before anything starts.
    """
    given: dict[str, Any] = {"group": group, **fields}
    for field, value in {
        "name": name,
        "bind": bind,
        "advertise": advertise,
        "multicast": multicast,
        "interface": interface,
        "newcomer": newcomer,
        "eligible": eligible,
        "preset": preset,
        "seeds": several("seeds", seeds) or None,
        "voters": several("voters", voters) or None,
        "key_file": None if key is None else path("key", key),
        "state": None if state is None else path("state", state),
    }.items():
        if value is not None:
            given[field] = value
    if meta is not None:
        check_words(meta)
        given["meta"] = tuple(f"{word}={value}" for word, value in meta.items())
    if isinstance(elections, Mapping):
        named = {name: chosen("election", choice, given) for name, choice in elections.items()}
        elections = [f"{name}={kind}" for name, kind in named.items()]
    if several("elections", elections):
        given["elections"] = tuple(elections)
    if election is not None:
        given["election"] = chosen("election", election, given)
    if membership is not None:
        given["membership"] = chosen("membership", membership, given)
    every = parse_duration(score_every)
    if every < EVERY_MIN:
        raise ConfigError(f"{score_every!r} is too often: at least 1ms", field="score_every")
    return Node(
        configure(
            by_path(given, ALSO_TAKEN),
            file=None if config is None else Path(path("config", config)),
            environment={},
        ),
        score=as_function(score),
        score_every=every,
        leave_on_sigterm=leave_on_sigterm,
        control=control,
        on_elected=on_elected,
        on_lost=on_lost,
        will=will,
    )
