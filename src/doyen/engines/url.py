"""The address of a store: `etcd://ant:2379,bee:2379/reports`."""

import re
from importlib.util import find_spec
from typing import Annotated, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from doyen.core.config import Discreet, Secret
from doyen.errors import ConfigError, without_password

PORTS: Final = {"etcd": 2379, "etcds": 2379, "postgresql": 5432, "redis": 6379, "rediss": 6379, "zookeeper": 2181}
ALIASES: Final = {"postgres": "postgresql", "valkey": "redis", "valkeys": "rediss", "zk": "zookeeper"}


KEEPS: Final = {
    "etcd": "etcd keeps what a majority of its servers confirmed",
    "zookeeper": "ZooKeeper keeps what a majority of its servers confirmed",
    "postgresql": "PostgreSQL keeps what it confirmed; after a failover, only with a synchronous standby",
    "redis": "Redis may lose what it confirmed: in a failover, and in a crash without appendfsync always; then two may "
    "lead",
}
CLIENTS: Final = {
    "postgresql": ("psycopg", "postgres"),
    "redis": ("redis", "redis"),
    "zookeeper": ("kazoo", "zookeeper"),
}
_NOT_ENCODED: Final = re.compile(r"%(?![0-9A-Fa-f]{2})|[\s@]")
MADE_UP: Final = ("disk", "shared", "/")  # The places of worlds without a server: simulations, recordings, presets.


class Url(Discreet, frozen=True):
    """One store: its servers, and who asks."""

    scheme: str
    servers: tuple[tuple[str, int], ...]
    path: str
    user: str
    password: Annotated[str, Secret()]
    options: Annotated[dict[str, str], Secret()]

    def __str__(self) -> str:
        """Return it without its password, for people and logs."""
        return f"{self.scheme}://{self.hosts}{self.path}"

    @property
    def hosts(self) -> str:
        """Return the servers as a list with commas; addresses of IPv6 are in brackets."""
        return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.servers)


def guarantee(text: str) -> str:
    """Return what the store of that address keeps, in words; raise `ConfigError` where it is none."""
    if text in MADE_UP:
        return "the store keeps what it confirmed"
    if not text:
        raise ConfigError("must be the address of a store: e.g. etcd://10.0.0.1:2379", field="shared")
    scheme = usable(text)[1]
    return KEEPS[scheme]


def usable(text: str) -> tuple[Url, str]:
    """Return a store's address and its sort; raise `ConfigError` where it cannot be used, or its client is missing."""
    url = parse(text)
    scheme = url.scheme if url.scheme in KEEPS else url.scheme[:-1]  # etcds and rediss are over TLS.
    if scheme == "redis" and len(url.servers) != 1:
        raise ConfigError(f"{url} names several servers: give the one that takes writes", field="shared")
    if scheme in CLIENTS and find_spec(CLIENTS[scheme][0]) is None:
        client, extra = CLIENTS[scheme]
        raise ConfigError(f"{url} needs the package {client}: pip install 'doyen[{extra}]'", field="shared")
    if scheme == "redis" and url.options:
        from doyen.engines.redis import refuse_options

        refuse_options(url, text)
    return url, scheme


def parse(text: str) -> Url:
    """Return a store's address; raise `ConfigError` where it is none."""
    split = urlsplit(text)
    scheme = ALIASES.get(split.scheme, split.scheme)
    if scheme not in PORTS:
        known = ", ".join(f"{name}://" for name in ("etcd", "postgresql", "redis", "zookeeper"))
        raise ConfigError(f"{shown(text)!r} is no store: begin with one of {known}", field="shared")
    who, at, where = split.netloc.rpartition("@")
    if (not at and "@" in text) or _NOT_ENCODED.search(who):
        raise ConfigError(
            f"{shown(text)!r} cannot be read: in user and password, write %25 for %, %2F for /, %3F for ?, %23 for #, "
            "%40 for @, %20 for a blank",
            field="shared",
        )
    user, _, password = who.partition(":")
    servers = tuple(_server(text, part, PORTS[scheme]) for part in where.split(",") if part)
    if not servers:
        raise ConfigError(f"{shown(text)!r} names no server: e.g. {scheme}://127.0.0.1:{PORTS[scheme]}", field="shared")
    options = dict(parse_qsl(split.query))
    return Url(scheme, servers, unquote(split.path).rstrip("/"), unquote(user), unquote(password), options)


def shown(text: str) -> str:
    """Return a URL without its password."""
    return without_password(text)


def _server(text: str, part: str, default: int) -> tuple[str, int]:
    try:
        split = urlsplit(f"//{part}")
        host, port = split.hostname, split.port
    except ValueError:
        host, port = None, None
    if not host:
        raise ConfigError(f"{shown(text)!r}: {part!r} is no HOST:PORT", field="shared")
    return host, default if port is None else port
