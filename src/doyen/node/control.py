"""A node's local side door: a unix socket for its own user, or also for a unix group (`control_group`).

One JSON line asks, one or more answer:

    RUNTIME/GROUP/NAME.sock      RUNTIME: DOYEN_RUNTIME_DIR, else XDG_RUNTIME_DIR/doyen, else /tmp/doyen-UID

    {"do": "members"}            → {"ok": true, "result": …}  or  {"ok": false, "error": "…"}
    {"do": "watch"}              → one line per event, until either side ends

`doyen members`, `leader`, `watch`, `top`, `explain`, `resign`, `voters`, `drill`, `advise`, `pass-on`, `leave`,
`join` and `doctor` are its users.
"""

import os
import socket
from base64 import b64decode
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from doyen.errors import ConfigError, DoyenError, LocalProtocolError, TransportError
from doyen.net.keys import id_text
from doyen.node.registration import answers, runtime_dir, runtime_dirs, safe

if TYPE_CHECKING:  # Who asks has no use for the server's modules: they are loaded by those who serve.
    import asyncio

    from doyen.node.campaign import Campaign
    from doyen.node.node import Node

REQUEST_MAX: Final = 4096
TOO_LONG: Final = f"what is asked is too long: a request has at most {REQUEST_MAX} bytes"
CONNECTIONS_MAX: Final = 32
PATH_MAX: Final = 100  # Of a unix socket's path, on every system.


class Control:
    """The server's end; it closes with the node's driver."""

    def __init__(self, node: "Node", path: Path) -> None:
        self._node, self.path = node, path
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @classmethod
    async def attach(cls, node: "Node") -> "Control | None":
        """Open a node's socket; return None where there is no place for one, for a node must run without it, too."""
        import asyncio

        registration = node.agent.registration
        if registration is None:  # It has complained already.
            return None
        path = registration.path.with_suffix(".sock")
        try:
            control = cls(node, path)
            if len(os.fsencode(path)) > PATH_MAX:
                raise OSError(0, "its path is too long: set DOYEN_RUNTIME_DIR to a shorter one")
            control._server = await asyncio.start_unix_server(
                control._accept, path, limit=REQUEST_MAX, start_serving=False
            )
            os.chmod(path, 0o600)
            if node.config.control_group:
                from doyen.node.sharing import share, unix_group  # Few share it.

                share(path, unix_group(node.config.control_group))
            node.agent.driver.on_close(control.close)  # Before the pause below, in which a join may be cancelled.
            await control._server.start_serving()
        except OSError as error:
            node.agent.driver.complain("control", f"no control socket at {path}: {error.strerror or error}")
            return None
        return control

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        with suppress(OSError):
            self.path.unlink()
        for task in self._tasks:
            task.cancel()

    def _accept(self, reader: "asyncio.StreamReader", writer: "asyncio.StreamWriter") -> None:
        import asyncio

        if len(self._tasks) >= CONNECTIONS_MAX:
            writer.transport.abort()
            return
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: "asyncio.StreamReader", writer: "asyncio.StreamWriter") -> None:
        import asyncio

        try:
            async with asyncio.timeout(10):
                try:
                    line = await reader.readline()
                except ValueError:
                    raise LocalProtocolError(TOO_LONG) from None
            request = msgspec.json.decode(line, type=dict[str, Any])
            if request.get("do") == "watch":
                await self._watch(reader, writer)
            else:
                writer.write(msgspec.json.encode({"ok": True, "result": await self._answer(request)}) + b"\n")
        except (msgspec.DecodeError, ValueError, DoyenError, TypeError) as error:
            writer.write(msgspec.json.encode({"ok": False, "error": str(error)}) + b"\n")
        except (OSError, TimeoutError, asyncio.CancelledError):
            pass
        finally:
            with suppress(OSError):
                writer.close()

    async def _watch(self, reader: "asyncio.StreamReader", writer: "asyncio.StreamWriter") -> None:
        """Tell events until either side ends: in a quiet group those that are gone would take up all connections."""
        import asyncio

        telling = asyncio.get_running_loop().create_task(self._tell(writer))
        try:
            while await reader.read(1024):  # A watcher has nothing to say; its end is all we wait for.
                pass
        finally:
            telling.cancel()

    async def _tell(self, writer: "asyncio.StreamWriter") -> None:
        with suppress(OSError):
            async for event in self._node.events():
                writer.write(msgspec.json.encode(event) + b"\n")
                await writer.drain()
        writer.close()  # Which ends the reading, too.

    async def _answer(self, request: dict[str, Any]) -> Any:
        node, election = self._node, str(request.get("election", ""))
        match request.get("do"):
            case "status":
                return self._status() | await self._acts("", request)
            case "members":
                return self._status() | {"members": node.members()} | await self._acts("", request)
            case "leader":
                return self._leader(election) | await self._acts(election, request)
            case "explain":
                return msgspec.to_builtins(node.explain(election)) | await self._acts(election, request)
            case "timers":
                return self._timers(election)
            case "tallies":
                from doyen.node.measured import measured  # Only those who want advice ask.

                return await measured(node)
            case "resign":
                campaign = node.election(election) if election else node.own_election
                was = campaign.is_leader
                await campaign.resign(request.get("cooldown", "30s"), request.get("to"))
                return self._leader(election) | {"resigned": was}
            case "voters":
                campaign = node.election(election) if election else node.own_election
                if "add" in request or "remove" in request:
                    await campaign.change_voters(request.get("add"), request.get("remove"))
                return self._voters(election, campaign)
            case "pass_on":
                campaign = node.election(election) if election else node.own_election
                baton = b64decode(str(request.get("baton", "")), validate=True)
                return self._leader(election) | {"term": await campaign.pass_on_in(request.get("term"), baton)}
            case "leave":
                import asyncio

                asyncio.get_running_loop().call_soon(lambda: node.spawn(node.leave()))
                return self._status()
            case "join":
                return {"seeds": self._join([str(seed) for seed in request.get("seeds", ())])}
            case "page":
                from doyen.node.page import page_of  # Only where somebody looks.

                asked = {"election": [election], "number": [str(request.get("number", ""))]}
                return page_of(node).answer(f"/page/{request.get('part')}", asked, may_act=True)
            case other:
                raise LocalProtocolError(f"cannot do {other!r}")

    async def _acts(self, election: str, request: dict[str, Any]) -> dict[str, Any]:
        """Return whether the leader acts, by its own word, if somebody wants to know."""
        if not request.get("ask_leader") or election not in self._node.agent.stack.reigns:
            return {}
        from doyen.node.views import leader_acts  # Only where somebody asks.

        return {"acts": await leader_acts(self._node.agent, election)}

    def _status(self) -> dict[str, Any]:
        node = self._node
        driver, config = node.agent.driver, node.config
        own, differing = node.agent.reign, driver.differing()
        gate = None if own is None else node.agent.awaited(own)
        leader = None if own is None else node.agent.stack.leader_info(own)
        return {
            "group": config.group,
            "node": node.name,
            "pid": os.getpid(),
            "address": node.address,
            "membership": config.membership_name(),
            "election": config.election,
            "elections": sorted(node.agent.stack.reigns),
            "leader": None if own is None else own.leader,
            "term": None if own is None or own.term is None else own.term.number,
            "leader_since_s": None if own is None or own.term is None else (driver.clock() - own.since) / 1e9,
            "leader_since": None if leader is None else leader.since,
            "is_leader": node.is_leader,
            "acts": None if own is None else own.acts(driver.clock()),
            "waits_for": "" if own is None else own.waits_for,
            "alone": "" if own is None else node.agent.alone(own),
            "would_wait_for": "" if gate is None or gate.calms else gate.why,
            "advice": "" if gate is None else gate.advice,
            "silent_seeds": node.agent.sight.silent_seeds(),
            "unresolved_seeds": node.agent.sight.unresolved_seeds(),
            "sealed": driver.seal is not None and not driver.seal.keyring.hears_clear,
            "key_ids": [] if driver.seal is None else [id_text(key) for key in driver.seal.keyring.keys],
            "durable": driver.storage is not None,
            "state_lost": "" if driver.storage is None else driver.storage.lost(),
            "round_trip_s": node.round_trip_s,
            "sent": driver.transport.sent_count,
            "received": driver.received_count,
            "refused": dict(driver.refused),
            "leads": {
                reign.name: reign.machine.leader_count  # How many may lead it at once.
                for reign in node.agent.stack.reigns.values()
                if reign.machine is not None and reign.leader == node.name and not reign.waits_for
            },
            "multicast_from": node.agent.udp.multicast_from() if config.multicast else None,
            "differs": [
                {"member": found.member, "election": found.election, "text": str(found)} for found in differing
            ],
        }

    def _leader(self, election: str) -> dict[str, Any]:
        reigns = self._node.agent.stack.reigns
        if election not in reigns:
            named = ", ".join(filter(None, sorted(reigns)))
            there = f"besides the group's own there are {named}" if named else "there is only the group's own"
            raise LocalProtocolError(f"this node takes part in no election {election!r}: {there}")
        reign, clock = reigns[election], self._node.clock()
        leader = self._node.agent.stack.leader_info(reign)
        return {
            "group": self._node.group,
            "node": self._node.name,
            "election": election,
            "kind": reign.kind.name,
            "leader": reign.leader,
            "term": None if reign.term is None else reign.term.number,
            "since_s": None if reign.term is None else (clock - reign.since) / 1e9,
            "address": None if leader is None else leader.address,
            "meta": {} if leader is None else leader.meta,
            "since": None if leader is None else leader.since,
            "is_me": reign.is_leader(clock),
            "acts": reign.acts(clock),  # None: only the leader itself knows.
            "waits_for": reign.waits_for,
            "alone": self._node.agent.alone(reign),
            "heir": None if reign.machine is None else reign.machine.heir,
            "baton_bytes": reign.baton_bytes,
        }

    def _timers(self, election: str) -> dict[str, Any]:
        """Return what a takeover takes at the worst, and all that a rehearsal of it is made from."""
        from doyen.node.rebuilt import plain_config  # Only those who rehearse ask.

        told, node = self._leader(election), self._node
        storage = node.agent.driver.storage
        disk_s = 0.0 if storage is None else storage.slowest_write_s
        worst = node.config.worst_case(node.agent.stack.reigns[election].kind, round(disk_s * 1e9))
        return {
            **told,
            "members": [member.name for member in node.members() if member.state in ("alive", "suspected")],
            "round_trip_s": node.round_trip_s,
            "disk_s": disk_s,
            "detection_s": worst.detection / 1e9,
            "failover_s": worst.failover / 1e9,
            "because": worst.because,
            "config": plain_config(node.config, durable=storage is not None),
        }

    def _voters(self, election: str, campaign: "Campaign") -> dict[str, Any]:
        found = campaign.electors()
        if found is None:
            raise LocalProtocolError("this election has no voters: only a quorum's has (--election quorum)")
        return {
            **{
                key: told
                for key, told in self._leader(election).items()
                if key in ("group", "node", "election", "leader", "is_me")
            },
            "number": found.number,
            "voters": found.voters,
            "earlier": found.earlier,  # Not empty while voters are being changed.
            "configured": sorted(self._node.config.voters),
            "answering": found.answering,  # None: only the leader knows.
            "may_fail": found.may_fail,
            "abstains": found.abstains,
        }

    def _join(self, seeds: list[str]) -> list[str]:
        if not seeds:
            raise ConfigError("give at least one address of another member, host:port")
        from doyen.node.attachments import join_further

        agent = self._node.agent
        return join_further(agent.attached, agent.driver, agent.config, seeds)


# ── The other end ───────────────────────────────────────────────────────────────────────────────────────────


def local_nodes(group: str | None = None) -> list[tuple[str, Path]]:
    """Return the nodes of this user on this machine that answer, as (group, socket)."""
    found = []
    pattern = f"{safe(group)}/*.sock" if group else "*/*.sock"
    for place in runtime_dirs():
        for path in sorted(place.glob(pattern)):
            if answers(path):
                found.append((path.parent.name, path))
    return found


def find_node(group: str | None, name: str | None) -> Path:
    """Return the first node that fits; raise an error that says which there are if none does."""
    return find_nodes(group, name)[0]


def find_nodes(group: str | None, name: str | None) -> list[Path]:
    """Return all nodes that fit, which must be of one group."""
    nodes = [(found, path) for found, path in local_nodes(group) if name is None or path.stem == safe(name)]
    groups = {found for found, _ in nodes}
    if not nodes:
        what = f"node {name!r} of " if name else "node of "
        what += f"group {group!r}" if group else "any group"
        places = runtime_dirs() or [runtime_dir()]
        closed = next((found for place in places if (found := _closed(place, group))), None)
        if closed:
            raise TransportError(f"cannot see whether a {what} runs here: {closed} is another user's; ask as that user")
        looked = ", ".join(map(str, places))
        from doyen.node.others import advice_about_others  # Only for those who ask in vain.

        others = advice_about_others(group and safe(group), name and safe(name))
        if others:
            raise TransportError(f"no {what} is in {looked}, but {others}")
        here = sorted({f"{path.stem} of group {found}" for found, path in local_nodes()})
        if here:
            raise TransportError(f"no {what} runs here: here run {', '.join(here)}")
        raise TransportError(
            f"no {what} runs here (looked in {looked}): start one, doyen agent --group {group or 'NAME'}"
        )
    if len(groups) > 1:
        raise ConfigError(f"--group is missing: here run {', '.join(sorted(groups))}")
    return [path for _, path in nodes]


def _closed(place: Path, group: str | None) -> Path | None:
    """Return a folder, of that place and its groups, that this user cannot look into."""
    inside = list(place.iterdir()) if os.access(place, os.R_OK) else []
    for folder in (place, *([place / safe(group)] if group else inside)):
        if os.access(folder, os.F_OK) and not os.access(folder, os.R_OK | os.X_OK):
            return folder
    return None


def ask(path: Path, do: str, *, timeout_s: float = 10.0, **fields: Any) -> Any:
    """Ask a node one question, and return its answer."""
    try:
        with _connected(path, timeout_s) as line, line.makefile("rb") as answers:
            asked = msgspec.json.encode({"do": do, **fields}) + b"\n"
            if len(asked) > REQUEST_MAX:
                raise ConfigError(f"{TOO_LONG}, and this one {len(asked):,}")
            line.sendall(asked)
            answer = answers.readline()
    except TimeoutError:
        raise TransportError(
            f"{path.stem} does not answer within {timeout_s:g} s: is it stopped, or very busy?"
        ) from None
    except OSError as error:
        raise TransportError(f"cannot ask {path.stem} at {path}: {error.strerror or error}") from None
    if not answer:
        raise TransportError(f"{path.stem} ended before it answered")
    said = msgspec.json.decode(answer, type=dict[str, Any])
    if not said.get("ok"):
        raise LocalProtocolError(f"{path.stem}: {said.get('error')}")
    return said["result"]


def watch(path: Path) -> Any:
    """Yield the events of a node as they happen."""
    with _connected(path, None) as line:
        line.sendall(b'{"do":"watch"}\n')
        with line.makefile("rb") as events:
            for event in events:
                yield msgspec.json.decode(event)


def _connected(path: Path, timeout_s: float | None) -> socket.socket:
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    line.settimeout(timeout_s)
    try:
        line.connect(str(path))
    except OSError as error:
        line.close()
        raise TransportError(f"cannot ask {path.stem} at {path}: {error.strerror}") from None
    return line
