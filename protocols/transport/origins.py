"""Requests that a web page has a browser send: which of them a port answers. One rule for every HTTP port of a node.

A browser sends what any page asks for to any address that its machine can reach, loopback among them. Two headers say
whose page it is, and no script can forge them: `Origin`, in WebSocket upgrades, in requests of scripts to another
origin, and in all that are neither GET nor HEAD; and `Sec-Fetch-Site`, also in those that an image, a link or a form
makes. So:

- A request with an `Origin` passes if that is the origin of the port itself, the same host and port, or if it is
  allowed. `null`, which every sandbox has, is allowed by `*` only.
- A request without one passes unless `Sec-Fetch-Site` says that another origin has made it. The same site is another
  origin, too: the same host on another port is another program.
- Where nobody has to log in, `Host` is an address, `localhost` or one of the names that the node is called by. A page
  that has its own name resolve to our address (DNS rebinding) is of the origin of the port, by what it is called.
- Programs send no `Origin`, and neither they nor clients of HTTP/1.0 that leave out `Host` are touched: browsers never
  do.

See also: what a page may read of a response (`CrossOrigin` in `protocols.http.client`).
"""

import ipaddress
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final, final

from sluicegate.messaging.clients.rights import FOREIGN_HOST, FOREIGN_ORIGIN

ANY: Final = "*"
LOCALHOST: Final = "localhost"
HOSTS_SETTING: Final = "node.allowed_hosts"
DEFAULT_PORTS: Final = {"http": ":80", "https": ":443"}
OWN_SITES: Final = frozenset(("", "same-origin", "none"))  # of Sec-Fetch-Site; "none": the user typed the address
SHOWN_CHARS_MAX: Final = 100  # of what a stranger sent


@final
@dataclass(frozen=True, slots=True)
class OriginRefusal:
    """Why a request is refused."""

    status: int  # of the answer
    title: str
    detail: str  # what was wrong, and which setting would allow it
    reason: str  # in metrics: one of `messaging.clients.rights`


@final
class WebPages:
    """The rule of one port. Settings are asked for with each request that has to do with them, so changes hold at once.

    `origins_setting` is the name of the setting that `origins` returns, empty if the port has none. `hosts` returns
    names in lower case. `is_open` tells whether somebody can use the port without logging in.
    """

    def __init__(
        self,
        *,
        is_tls: bool,
        origins_setting: str,
        origins: Callable[[], Collection[str]],
        hosts: Callable[[], Collection[str]],
        is_open: Callable[[], bool],
    ) -> None:
        self._is_tls = is_tls
        self._origins_setting = origins_setting
        self._origins = origins
        self._hosts = hosts
        self._is_open = is_open
        self._address = ""  # the latest Host that was an address: most clients of a port say the same

    def refusal(self, host: str, origin: str, site: str) -> OriginRefusal | None:
        """Return why a request is refused, None if it is not. Empty headers are those that are not there."""
        return self.host_refusal(host) or self.origin_refusal(host, origin, site)

    def host_refusal(self, host: str) -> OriginRefusal | None:
        """Return why a request to this host is refused, from any sender; None if it is not."""
        if host == self._address or not host:
            return None
        name = host_name(host)
        if name == LOCALHOST:
            return None
        if _is_address(name):
            self._address = host
            return None
        hosts = self._hosts()
        if name in hosts or ANY in hosts or not self._is_open():
            return None
        detail = (
            f"nobody has to log in here, and {host[:SHOWN_CHARS_MAX]!r} is neither an address nor localhost nor one of "
            f"the names in {HOSTS_SETTING}"
        )
        return OriginRefusal(421, "Wrong Host", detail, FOREIGN_HOST)

    def origin_refusal(self, host: str, origin: str, site: str) -> OriginRefusal | None:
        """Return why a request of this origin is refused, None if it is not."""
        if origin:
            if self.allows(origin) or self._is_own(origin, host):
                return None
            page = f"a page of {origin[:SHOWN_CHARS_MAX]!r}"
        elif site in OWN_SITES or ANY in self._origins():
            return None
        else:
            page = f"a page of another origin (Sec-Fetch-Site: {site[:SHOWN_CHARS_MAX]!r})"
        setting = self._origins_setting
        more = f": its origin is not in {setting}" if setting else ""
        return OriginRefusal(403, "Foreign Origin", f"{page} may not use this port{more}", FOREIGN_ORIGIN)

    def allows(self, origin: str) -> bool:
        """Return whether the setting allows pages of an origin."""
        origins = self._origins()
        return len(origins) > 0 and (origin.lower() in origins or ANY in origins)

    def _is_own(self, origin: str, host: str) -> bool:
        """Return whether an origin is that of the port, as its client has called it.

        What ends TLS before us says `https` of a port that is not in TLS. The other way round it is no page of ours:
        whoever sits on the wire can make one of `http` up.
        """
        scheme, _, authority = origin.lower().partition("://")
        default_port = DEFAULT_PORTS.get(scheme)
        if default_port is None or not authority or (self._is_tls and scheme != "https"):
            return False
        return authority.removesuffix(default_port) == host.lower().removesuffix(default_port)


def host_name(host: str) -> str:
    """Return the name or the address in a `Host`, in lower case: without a port, brackets, and a dot at its end."""
    if host.startswith("["):
        address, bracket, port = host[1:].partition("]")
        return address.lower() if bracket and (not port or _is_port(port)) else host
    name, colon, port = host.rpartition(":")
    if not (colon and _is_port(colon + port)):
        name = host
    return name.lower().removesuffix(".")


def authority_of(target: str) -> str:
    """Return the authority of a target that is a whole URL, empty for others.

    It counts then, whatever `Host` says (RFC 9112 3.2.2).
    """
    scheme, separator, rest = target.partition("://")
    if not separator or not scheme.isalpha():
        return ""
    for end in "/?#":
        rest = rest.partition(end)[0]
    return rest


def _is_port(text: str) -> bool:
    digits = text[1:]
    return text.startswith(":") and (not digits or (digits.isascii() and digits.isdigit()))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
