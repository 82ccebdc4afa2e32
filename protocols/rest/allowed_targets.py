"""The web servers that delivery points may push to: all but those with a link-local address, or those of a list.

An operator who may make a delivery point need not be trusted with every machine that the gateway reaches. So the
address is checked when a socket to it is made, after names were resolved: a name that resolves otherwise the next time
gains nothing. A host is checked when it is configured, too, as far as that is possible.

Link-local addresses are those of the machine's own link; clouds hand out credentials there. They are refused unless an
entry of the list lies within them: neither a name nor 0.0.0.0/0 allows them.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

SETTING: Final = "rest.allowed_targets"
ENTRY_ALLOWED: Final = (
    "a host name, *. and a domain for all names below it, an address, or a network such as 10.0.0.0/8"
)

_ANYTHING_BELOW: Final = "*."
_NAME: Final = re.compile(r"(\*\.)?[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")  # what some systems read as a part of an IPv4 address
_NAT64: Final = IPv6Network("64:ff9b::/96")  # RFC 6052
_COMPATIBLE: Final = IPv6Network("::/96")  # RFC 4291, deprecated

_Address = IPv4Address | IPv6Address
_Network = IPv4Network | IPv6Network


class TargetRefused(OSError):
    """A web server may not be pushed to. The text says why, and by which setting."""


@dataclass(frozen=True, slots=True)
class AllowedTargets:
    """The list. Without entries everything is allowed that is not link-local."""

    names: tuple[str, ...] = ()  # in lower case
    networks: tuple[_Network, ...] = ()

    def host_refusal(self, host: str) -> str:
        """Return why a host is refused, whatever it resolves to; empty: that depends, or it is allowed."""
        address = _literal(host)
        if address is not None:
            return self.refusal(host, host)
        if _NUMBER.fullmatch(_plain(host).rpartition(".")[2]):
            return f"{host!r:.80} is no name of a host, and no IPv4 address of four decimal numbers"
        if self.names and not self.networks and not self._names(host):
            return f"{host} is not in {SETTING}"
        return ""

    def refusal(self, host: str, address: str) -> str:
        """Return why an address of a host is refused; empty: it is allowed."""
        found = _unmapped(ip_address(address))
        shown = address if _plain(host) == _plain(address) else f"{address}, an address of {host},"
        for each in (found, *_embedded(found)):
            if each.is_link_local and not any(net.is_link_local and each in net for net in self.networks):
                return f"{shown} is link-local, and no entry of {SETTING} is a link-local network that it is in"
        if not self.names and not self.networks:
            return ""
        if self._names(host) or any(found in net for net in self.networks):
            return ""
        return f"{shown} is not in {SETTING}"

    def _names(self, host: str) -> bool:
        plain = _plain(host)
        below = tuple(each[1:] for each in self.names if each.startswith(_ANYTHING_BELOW))
        return _literal(host) is None and (plain in self.names or plain.endswith(below))


def parse_targets(entries: Iterable[str]) -> AllowedTargets:
    """Return the list that texts are. Raises ValueError for the first that is no entry."""
    names: list[str] = []
    networks: list[_Network] = []
    for entry in entries:
        try:
            network = ip_network(entry)
        except ValueError as problem:
            if "has host bits set" in str(problem):
                raise ValueError(f"{entry!r:.80} has bits behind the length of its network") from None
            name = _plain(entry)
            if not _NAME.fullmatch(name) or _NUMBER.fullmatch(name.rpartition(".")[2]):
                raise ValueError(f"{entry!r:.80} is no entry; allowed: {ENTRY_ALLOWED}") from None
            names.append(name)
            continue
        if isinstance(network, IPv6Network) and network.network_address.ipv4_mapped is not None:
            raise ValueError(f"{entry!r:.80} is of IPv4 addresses: write it as such")
        networks.append(network)
    return AllowedTargets(tuple(names), tuple(networks))


def _plain(host: str) -> str:
    return host.lower().rstrip(".")


def _literal(host: str) -> _Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


def _unmapped(address: _Address) -> _Address:
    """Return the IPv4 address that an IPv4-mapped one stands for: the system connects to that."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if mapped is None else mapped


def _embedded(address: _Address) -> list[IPv4Address]:
    """Return the IPv4 addresses that translators or tunnels may take an IPv6 one to (NAT64, 6to4, compatible)."""
    if isinstance(address, IPv4Address):
        return []
    found = [] if address.sixtofour is None else [address.sixtofour]
    if address in _NAT64 or address in _COMPATIBLE:
        found.append(IPv4Address(int(address) & 0xFFFF_FFFF))
    return found
