"""The path of a message over bridges: a user property that names each broker that it has left, and by which bridge.

A message that comes back to a broker has gone in a circle and is dropped; so is one with too many hops, which has gone
through brokers that rename, or drop part of, the property.
"""

from typing import Final
from urllib.parse import quote

from sluicegate.messaging.message.headers import Headers

PATH: Final = "Sluicegate-Path"  # name of the user property, or application property in AMQP
HOPS_MAX: Final = 8  # as Solace's `maxTtl` of bridges
_BYTES_MAX: Final = 4096  # of the property: a longer one has more hops than that, or was never ours
_SEPARATOR: Final = ", "  # as in HTTP's Via


def place_of(node: str, vpn: str) -> str:
    """Return how a path names a message VPN of a broker."""
    return f"{quote(node, safe='')}/{quote(vpn, safe='')}"


def path_of(headers: Headers | None) -> str | None:
    """Return the path that a message has behind it; None: it was published here, or by a client elsewhere.

    Brokers and clients may have added a property of that name, an empty one too: all of them are the path, as in HTTP.
    """
    if headers is None or headers.user_properties is None:
        return None
    path: str | None = None
    for name, value in headers.user_properties:
        if name == PATH:
            path = f"{path}{_SEPARATOR}" + str(value) if path else str(value)
    return path


def extended(path: str, place: str, bridge: str) -> str:
    """Return a path with one more hop: a bridge that leaves a place."""
    hop = f"{place}/{quote(bridge, safe='')}"
    return f"{path}{_SEPARATOR}{hop}" if path else hop


def has_passed(path: str, place: str) -> bool:
    """Return whether a message has left a place before."""
    return bool(path) and any(hop.strip().startswith(place + "/") for hop in path.split(","))


def is_too_long(path: str) -> bool:
    """Return whether a message has the most hops that one may have, and may make no other."""
    return bool(path) and (len(path) > _BYTES_MAX or path.count(",") + 1 >= HOPS_MAX)
