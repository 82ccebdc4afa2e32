"""The places of connections that brokers of a machine share: of a message VPN, a client profile, and a client username.

A username is counted only while a limit of its own may refuse it: there may be very many.
"""

from enum import StrEnum
from typing import Final, final

from sluicegate.messaging.limits.counts import SharedCounts, Want, key_of


class PlaceOf(StrEnum):
    """Who has the places, in the order in which they are asked for."""

    USERNAME = "username"
    VPN = "message VPN"
    PROFILE = "client profile"


@final
class SharedPlaces:
    """The connections of one message VPN, as this broker counts them beside the others."""

    def __init__(self, counts: SharedCounts, vpn: str) -> None:
        self._counts: Final = counts
        self._vpn: Final = vpn

    def claim(self, wants: list[tuple[PlaceOf, str, int, int]]) -> PlaceOf | None:
        """Have places: of whom, its name, how many then, and the limit. Return whose limit refuses; None: nobody's."""
        refuses = self._counts.claim([Want(self._key(of, name), value, limit) for of, name, value, limit in wants])
        return None if refuses < 0 else wants[refuses][0]

    def settle(self, of: PlaceOf, name: str, value: int) -> None:
        """Show how many places this broker has, whatever the limit is."""
        self._counts.set(self._key(of, name), value)

    def _key(self, of: PlaceOf, name: str) -> int:
        return key_of("connections", self._vpn, of, name)
