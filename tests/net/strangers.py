"""A stranger before a group of real nodes in made-up time: what it sends, and what the group sends to anybody.

Real nodes run with real drivers on the made-up network.  All that they say to each other while members join, elect,
move the leader, leave and die is kept; the stranger says each kind of message again in its own name, from any address
that it likes, and with any address in it.  Every byte that leaves for an address of no member is counted.
"""

from functools import partial
from typing import Any, get_args

import msgspec

import doyen
from doyen.core.codec import SHORT
from doyen.core.ids import Address
from doyen.net.credit import is_room
from doyen.net.echoes import is_handshake
from doyen.net.handshake import MARK, NONE, TOKEN_BYTES
from doyen.testing import Cluster

PORT = 7600


class Besieged:
    """A group, all that its members said, and what left for addresses of nobody."""

    def __init__(self, size: int, *, seeds: int = 2, **fields: Any) -> None:
        self.names = [f"n{i}" for i in range(size)]
        self.seeds = self.names[:seeds]
        self.crossed: list[bytes] = []
        self.strangers_count = 0
        self.stranger = self.named = Address("", 0)
        self.out: dict[Address, int] = {}  # Bytes that left for an address of no member.
        self.spent = 0
        self.echoes = False  # Whether the stranger's own address echoes.
        self.said = b""

        async def main(name: str) -> None:
            seeds = [seed for seed in self.seeds if seed != name]
            self.nodes[name] = node = doyen.join("test", name=name, seeds=seeds, find_local=False, **fields)
            await node.__aenter__()  # Nobody leaves at the end: that would outlast the run.
            await node.ended.wait()

        self.nodes: dict[str, doyen.Node] = {}
        self.cluster = Cluster(size, main=main, seed=3, voters=(), state="", election="announce")
        self.wires = self.cluster.world.wires  # type: ignore[attr-defined]
        self.carry = self.wires.send
        self.wires.send = self._watch

    def __enter__(self) -> "Besieged":
        self.cluster.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        self.cluster.__exit__(*raised)

    def _watch(self, source: Any, data: bytes, to: tuple[str, int]) -> None:
        address = Address(*to[:2])
        if address.host.startswith("127.1.2"):
            self.out[address] = self.out.get(address, 0) + len(data)
            if address == self.stranger and self.echoes and is_handshake(data):
                self._answer(source, data)
        elif not is_handshake(data) and not is_room(data):
            self.crossed.append(data)
        self.carry(source, data, to)

    def _answer(self, endpoint: Any, data: bytes) -> None:
        token, echo = data[1 : 1 + TOKEN_BYTES], data[1 + TOKEN_BYTES :]
        if echo == NONE:
            self.put(endpoint, MARK + b"strange!" + token)
        elif self.said:
            said, self.said = self.said, b""
            self.put(endpoint, said)  # The address has echoed: now it is heard.

    def put(self, endpoint: Any, data: bytes) -> None:
        """Deliver a datagram of the stranger, from its address."""
        self.spent += len(data)
        endpoint.hear(data, (self.stranger.host, self.stranger.port))

    def endpoint(self, name: str) -> Any:
        return self.wires.endpoints[self.names.index(name), PORT]

    def come(self) -> None:
        """Take new addresses for the stranger, and for somebody whom it names."""
        self.strangers_count += 1
        high, low = divmod(self.strangers_count, 250)
        self.stranger, self.named = (Address(f"127.1.{part + high}.{low + 1}", 4000) for part in (200, 220))

    def ask(self, opened: list[Any], *, of: str, echoes: bool, seconds: float, way: int = 0) -> tuple[int, int, int]:
        """Say that to one member; return the bytes spent, those sent back, and those to the address named."""
        self.come()
        data = WAYS[way](opened, self.named)
        self.out, self.spent, self.echoes, self.said = {}, 0, echoes, data if echoes else b""
        self.cluster.sim.at(self.cluster.sim.now, partial(self.put, self.endpoint(of), data), "a stranger speaks")
        self.cluster.run_for(seconds)
        return self.spent, self.out.get(self.stranger, 0), self.out.get(self.named, 0)

    def repeat(self, data: bytes, *, of: str, seconds: float) -> tuple[int, int]:
        """Deliver a datagram as it is, from an address of nobody; return the bytes spent, and those sent there."""
        self.come()
        self.out, self.spent, self.echoes, self.said = {}, 0, False, b""
        self.cluster.sim.at(self.cluster.sim.now, partial(self.put, self.endpoint(of), data), "a stranger speaks")
        self.cluster.run_for(seconds)
        return self.spent, self.out.get(self.stranger, 0)

    def flood(self, words: list[bytes], *, of: str, per_s: int, count: int, echoes: bool, moves: bool) -> float:
        """Say these in turn, from one address or each from a new one; return the bytes sent back by those spent."""
        self.come()
        self.out, self.spent, self.echoes, self.said = {}, 0, echoes, b""

        def say(turn: int) -> None:
            if moves:
                self.come()
            self.put(self.endpoint(of), words[turn % len(words)])
            if turn + 1 < count:
                self.cluster.sim.at(self.cluster.sim.now + 10**9 // per_s, partial(say, turn + 1), "a stranger speaks")

        self.cluster.sim.at(self.cluster.sim.now, partial(say, 0), "a stranger speaks")
        self.cluster.run_for(count / per_s + 20)
        return sum(self.out.values()) / self.spent

    # What members say.

    def kinds(self) -> dict[tuple[str, str], list[Any]]:
        """Return a message of each kind that a member understands: the longest that crossed, or one that is made up."""
        return {key: of_kind[0] for key, of_kind in self.variants().items()}

    def variants(self) -> dict[tuple[str, str], list[list[Any]]]:
        """Return the longest and the shortest message of each kind that crossed, or one that is made up."""
        sizes: dict[tuple[str, str], dict[int, list[Any]]] = {}
        for data in self.crossed:
            opened = msgspec.msgpack.decode(data)
            sizes.setdefault((str(opened[4]), str(opened[5][0])), {})[len(data)] = opened
        found = {key: [by_size[max(by_size)], by_size[min(by_size)]] for key, by_size in sizes.items()}
        head = next(iter(found.values()))[0][:4]
        found["views", "?"] = [[*head, "views", ["?", 1, "", 0]]]  # Asked by a page; no machine hears it.
        for port in self.nodes["n1"].agent.driver.host.ports.values():
            channel, spoken = SHORT.get(port.channel, port.channel), port.machine.MESSAGES
            for kind in get_args(spoken) or (spoken,):
                key = (channel, str(kind.__struct_config__.tag))
                if key not in found:
                    found[key] = [[*head, channel, filled(msgspec.inspect.type_info(kind))]]
        return found


def filled(kind: Any, name: str = "") -> Any:
    """Return some value of a type, as msgpack has it."""
    match kind:
        case msgspec.inspect.StructType():
            values = [filled(field.type, field.name) for field in kind.fields]
            return [kind.tag, *values] if kind.tag is not None else values
        case msgspec.inspect.StrType():
            return {"host": "127.1.0.3", "address": f"127.1.0.3:{PORT}"}.get(name, "n2")
        case msgspec.inspect.IntType():
            return PORT if "port" in name else 1
        case msgspec.inspect.BoolType():
            return True
        case msgspec.inspect.FloatType():
            return 1.0
        case msgspec.inspect.BytesType():
            return b"\1" * 8
        case msgspec.inspect.TupleType():
            return [filled(one, name) for one in kind.item_types]
        case msgspec.inspect.VarTupleType() | msgspec.inspect.ListType():
            return [filled(kind.item_type, name)]
        case msgspec.inspect.DictType():
            return {filled(kind.key_type): filled(kind.value_type)}
        case msgspec.inspect.UnionType():
            return filled(next(one for one in kind.types if not isinstance(one, msgspec.inspect.NoneType)), name)
        case msgspec.inspect.EnumType():
            return next(iter(kind.cls)).value
        case _:
            return 1


def forged(opened: list[Any], named: Address) -> bytes:
    """Return a member's datagram of a stranger, with made-up names, and somebody else's address in every place."""

    def change(value: Any) -> Any:
        if isinstance(value, list):
            changed = [change(one) for one in value]
            for i, one in enumerate(changed[:-1]):
                if one == named.host and isinstance(changed[i + 1], int):
                    changed[i + 1] = named.port
            return changed
        if isinstance(value, dict):
            return {change(key): change(one) for key, one in value.items()}
        if isinstance(value, str) and value.startswith("127.1."):
            return str(named) if ":" in value else named.host
        if isinstance(value, str) and value.startswith("n") and value[1:].isdigit():
            return f"x{value[1:]}"
        return value

    version, group, _, _, channel, message, *rest = opened
    return msgspec.msgpack.encode([version, group, "eve", 2**50, channel, change(message), *rest])


def as_said(opened: list[Any], named: Address) -> bytes:
    """Return a member's datagram of a stranger, with the members' real names and numbers."""
    version, group, _, _, *rest = opened
    return msgspec.msgpack.encode([version, group, "e", 2**50, *rest])


def oldest(opened: list[Any], named: Address) -> bytes:
    """Return the same with every number 0: the stranger knows all members, and nothing of them."""

    def change(value: Any) -> Any:
        if isinstance(value, list):
            return [change(one) for one in value]
        return 0 if isinstance(value, int) and not isinstance(value, bool) and value != PORT else value

    version, group, _, _, channel, message, *rest = opened
    return msgspec.msgpack.encode([version, group, "e", 2**50, channel, [message[0], *change(message[1:])], *rest])


def as_member(opened: list[Any], named: Address) -> bytes:
    """Return a member's datagram as it was, but for a later incarnation: it has moved to the stranger's address."""
    version, group, name, incarnation, *rest = opened
    return msgspec.msgpack.encode([version, group, name, incarnation + 1, *rest])


WAYS = (forged, as_said, oldest, as_member)
