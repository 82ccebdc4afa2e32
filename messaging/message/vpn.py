"""Message VPNs by name, and whose a row of the store is.

A VPN other than `default` has its name before the keys of its rows, between two zero bytes. No other key begins with
one, so the rows of a store that knew no VPNs are those of `default`.
"""

from collections.abc import Iterable
from typing import Final

DEFAULT_VPN: Final = "default"  # exists always
NAME_CHARS_MAX: Final = 32  # as Solace's
NAME_PATTERN: Final = r"^[A-Za-z][A-Za-z0-9_-]*$"  # it stands in topics of events, and in paths of settings

_MARK: Final = b"\0"


def row_prefix(vpn: str) -> bytes:
    """Return what stands before the keys of a VPN's rows."""
    return b"" if vpn == DEFAULT_VPN else _MARK + vpn.encode() + _MARK


def rows_by_vpn(rows: Iterable[tuple[bytes, bytes]]) -> dict[str, dict[bytes, bytes]]:
    """Return the rows of each VPN that has any, under their keys without the prefix."""
    found: dict[str, dict[bytes, bytes]] = {}
    for key, value in rows:
        vpn = DEFAULT_VPN
        if key.startswith(_MARK):
            name, _, key = key[1:].partition(_MARK)
            vpn = name.decode()
        found.setdefault(vpn, {})[key] = value
    return found
