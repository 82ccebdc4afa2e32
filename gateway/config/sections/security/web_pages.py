"""The web pages that may use a port, and the host names under which browsers may call it.

The rule itself is `protocols.transport.origins`.
"""

import re
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from sluicegate.messaging.queues.attributes import quoted
from sluicegate.protocols.transport.origins import ANY, DEFAULT_PORTS

HOST_CHARS_MAX: Final = 255
# As browsers send it: no user, no path, no slash at the end; a name that is not ASCII as `xn--...`.
_ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?")
_HOST: Final = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*")


def _origin(given: str) -> str:
    origin = given.lower()
    if origin == ANY:
        return origin
    if origin == "null":
        text = "'null' is what every page in a sandbox says, whatever its site"
        raise ValueError(f"{text}; allowed: an origin, or {ANY!r}: all")
    if _ORIGIN.fullmatch(origin) is None:
        allowed = f"SCHEME://HOST or SCHEME://HOST:PORT, as 'https://shop.example'; {ANY!r}: all"
        raise ValueError(f"{quoted(given)} is not an origin of a web page; allowed: {allowed}")
    return origin.removesuffix(DEFAULT_PORTS.get(origin.partition("://")[0], ""))


def _host(given: str) -> str:
    name = given.lower().removesuffix(".")
    if name != ANY and (_HOST.fullmatch(name) is None or len(name) > HOST_CHARS_MAX):
        allowed = f"a name without scheme and port, as 'broker.example'; {ANY!r}: all"
        raise ValueError(f"{quoted(given)} is no name of a host; allowed: {allowed}")
    return name


AllowedHosts = tuple[Annotated[str, AfterValidator(_host)], ...]
AllowedOrigins = Annotated[
    tuple[Annotated[str, AfterValidator(_origin)], ...],
    Field(description="web pages that may use the ports, as https://shop.example; '*': all"),
]
