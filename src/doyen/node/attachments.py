"""The parts of a running node besides its machines: a seal, a link to its leader, discovery, HTTP."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from doyen.core.clock import FOREVER, format_duration
from doyen.core.ids import Address
from doyen.errors import ConfigError
from doyen.net.driver import Driver
from doyen.net.sealed import Seal
from doyen.node.config import ANSWERS_WITHIN, NodeConfig
from doyen.node.stack import Stack

if TYPE_CHECKING:
    from doyen.net.recording.recorder import Recorder

T = TypeVar("T")


class Attachments(Struct):
    """The parts that are attached to a running driver; all of them end with it."""

    link: Any = None
    discovery: Any = None
    http: Any = None
    page: Any = None  # Once somebody has looked at it.


def check(config: NodeConfig) -> None:
    """Raise `ConfigError` for what could not be attached later."""
    if config.http:
        from doyen.node.http import http_place

        http_place(config.http, config.http_token, open_probes=config.http_open)
    if config.control_group:
        from doyen.node.sharing import unix_group

        unix_group(config.control_group)
    if config.record and (config.record_max < 65_536 or not Path(config.record).parent.is_dir()):
        raise ConfigError(
            f"{config.record} cannot be written: give a file in a folder that exists, and record_max of at least 65536",
            field="record",
        )


def seal_of(config: NodeConfig) -> Seal | None:
    """Return the seal of a node with a key, before its driver is made; PyNaCl is loaded only then."""
    if not config.key_file:
        return None
    from doyen.net.keys import load_keyring

    return Seal(load_keyring(Path(config.key_file)), config.group)


def recorder_of(
    driver: Driver, config: NodeConfig, address: Address | None, seeds: tuple[Address, ...]
) -> "Recorder | None":
    """Return the recorder of a node, if it is to have one; before its machines are built."""
    if not config.record:
        return None
    from doyen.net.recording.recorder import Recorder
    from doyen.node.rebuilt import origin_of

    return Recorder(driver, Path(config.record), config.record_max, origin_of(driver, config, address, seeds))


def grown(recorder: "Recorder | None", what: Mapping[str, str], build: Callable[[], T]) -> T:
    """Add machines to a running node; `what` is how `rebuilt.Rebuilt` knows them."""
    return build() if recorder is None else recorder.add(what, build)


async def attach(
    driver: Driver,
    stack: Stack,
    config: NodeConfig,
    address: Address | None,
    recorder: "Recorder | None" = None,
    local: Callable[[], Iterable[Address]] | None = None,  # Other nodes of this machine.
) -> Attachments:
    """Attach what the configuration asks for, once the driver runs."""
    made = Attachments()
    # Before anything is awaited: others call already.
    made.discovery = _discovery(driver, stack, config, address, recorder, local)
    keyring = None if driver.seal is None else driver.seal.keyring
    if keyring is not None and keyring.path is not None:
        from doyen.net.keywatch import watch_key_file

        watch_key_file(driver, keyring)
    if config.link:
        from doyen.net.leaderlink import LeaderLink

        named = {reign.channel: reign.leader for reign in stack.reigns.values() if reign.leader is not None}
        made.link = await LeaderLink.attach(driver, keyring=keyring, leaders=named)
    if config.http:
        from doyen.node.http import Http

        made.http = await Http.attach(
            driver, stack, config.http, token=config.http_token, link=made.link, open_probes=config.http_open
        )
    return made


def join_further(made: Attachments, driver: Driver, config: NodeConfig, seeds: Sequence[str]) -> list[str]:
    """Give a running node further seeds, which it keeps until it ends; return all that it has."""
    if made.discovery is None:
        made.discovery = _discover(driver, config)
    made.discovery.add(seeds)
    return [*map(str, made.discovery.seeds), *made.discovery.sought]


def _discovery(
    driver: Driver,
    stack: Stack,
    config: NodeConfig,
    address: Address | None,
    recorder: "Recorder | None",
    local: Callable[[], Iterable[Address]] | None,
) -> Any:
    """Begin discovery where there is something to find: this machine's, names, a file, or what does not multicast."""
    calls = bool(config.multicast) and stack.membership is not None and address is not None
    named = len(config.numeric_seeds()) < len(config.seeds)
    # Without a list of members a follower says nothing: it calls, rarer and rarer, so that others know of it.
    unknown = stack.membership is None and not (config.multicast and _is_strong(config, stack))
    calls = calls or (unknown and bool(config.looks_for_others() or local or config.expect))
    if not (calls or config.seeds_file or named or local is not None or config.group_port()):
        return None
    found = _discover(driver, config, local)
    if calls and address is not None:
        from doyen.net.beacon import CHANNEL, Beacon
        from doyen.net.discovery import DiscoveryConfig

        last = DiscoveryConfig().beacon_last if stack.membership is not None else FOREVER
        # A member that looks for nobody in particular is answered by the leader's own announcements.
        asks = bool(stack.membership or config.seeds or config.seeds_file or config.expect or (local and [*local()]))
        introduces, expect = stack.membership is None and not config.multicast, 0
        added = {"beacon": str(address), "last": format_duration(last), "asks": str(asks)}
        settings = DiscoveryConfig(beacon_last=last)
        if introduces:
            added["introduces"] = "True"
        if config.expect > 1 and stack.membership is None:  # A membership knows who is there.
            expect, settings = config.expect, replace(settings, answers_within=ANSWERS_WITHIN[config.preset])
            added |= {"expect": str(expect), "within": format_duration(settings.answers_within)}
        build = partial(
            Beacon, driver.host.node, address, settings, wants_answers=asks, introduces=introduces, expect=expect
        )
        grown(recorder, added, partial(driver.add, CHANNEL, build))
    return found


def _is_strong(config: NodeConfig, stack: Stack) -> bool:
    """Return whether every election of this node counts a majority of its voters, who answer each other."""
    return all(config.promise(reign.kind).strong for reign in stack.reigns.values())


def _discover(driver: Driver, config: NodeConfig, local: Callable[[], Iterable[Address]] | None = None) -> Any:
    from doyen.net.discovery import Discovery
    from doyen.node.config import DEFAULT_PORT

    file = Path(config.seeds_file) if config.seeds_file else None
    return Discovery.attach(
        driver, config.seeds, file=file, default_port=DEFAULT_PORT, group_port=config.group_port(), local=local
    )
