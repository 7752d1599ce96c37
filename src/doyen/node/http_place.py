"""The address at which a node serves HTTP, and the names by which it may be asked for."""

import ipaddress
import os
from pathlib import Path

from doyen.core.ids import Address, parse_address
from doyen.errors import ConfigError
from doyen.net.own_address import is_loopback


def http_place(where: str, token: str, *, open_probes: bool = False) -> Address | Path:
    """Return where to serve; a place that others reach needs a token of at least 16 bytes, or serves only probes."""
    if where.startswith("unix:"):
        path = Path(where.removeprefix("unix:"))
        if not path.name or len(os.fsencode(path)) > 100 or not path.parent.is_dir():
            raise ConfigError(f"{where!r} is no place for a socket: give unix:PATH in a folder there is", field="http")
        return path
    address = parse_address(where)
    try:
        reached = not is_loopback(address.host)
    except ValueError:
        raise ConfigError(
            f"{address.host!r} is not a numeric address: give e.g. 127.0.0.1:7680", field="http"
        ) from None
    if reached and len(token) < 16 and (token or not open_probes):
        raise ConfigError(
            f"{address} can be reached by others, so it needs a token of at least 16 bytes (http_token); "
            "or give a loopback address, or unix:PATH, or serve the probes only (http_open)",
            field="http",
        )
    return address


def is_address(host: str) -> bool:
    """Return whether a Host header is an address: a name may be somebody else's, and point here (DNS rebinding)."""
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return name.lower() == "localhost"
    return True
