"""Message VPNs by name, and the VPN of a stored row.

A VPN other than `default` prefixes the keys of its rows with its name between two zero bytes. No other key begins with
a zero byte, so the rows of a store from before VPNs belong to `default`.
"""

from collections.abc import Iterable
from typing import Final

DEFAULT_VPN: Final = "default"  # always exists
NAME_CHARS_MAX: Final = 32  # as Solace's
NAME_PATTERN: Final = r"^[A-Za-z][A-Za-z0-9_-]*$"  # it is used in the topics of events and in the paths of settings

_MARK: Final = b"\0"


def row_prefix(vpn: str) -> bytes:
    """Return the prefix of the keys of a VPN's rows."""
    return b"" if vpn == DEFAULT_VPN else _MARK + vpn.encode() + _MARK


def rows_by_vpn(rows: Iterable[tuple[bytes, bytes]]) -> dict[str, dict[bytes, bytes]]:
    """Return the rows of each VPN that has any, with the prefix removed from their keys."""
    found: dict[str, dict[bytes, bytes]] = {}
    for key, value in rows:
        vpn = DEFAULT_VPN
        if key.startswith(_MARK):
            name, _, key = key[1:].partition(_MARK)
            vpn = name.decode()
        found.setdefault(vpn, {})[key] = value
    return found
