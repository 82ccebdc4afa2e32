"""Unfinished input of clients: one bound for all connections of a node together.

Packets, frames, deliveries and bodies have limits of their own, for each connection; here their bytes are added up as
they come, since a thousand clients that stop in the middle of something large would take a thousand times the limit.
Small ones are not counted: a read ends in the middle of one most of the time.

Beyond the bound, the connection ends that made no progress for the longest time. A client that sends is ahead of one
that has stopped, so one that holds much and sends nothing takes the memory of no other. Not thread-safe.
"""

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from sluicegate.messaging.message.thresholds import Exceedance, no_refusal_listener

COUNTED_BYTES_MIN: Final = 4096  # less of one connection is not counted
COUNTER: Final = "unfinished_bytes_exceeded"  # of connections that ended for it
TEXT: Final = "503 Unfinished Bytes Exceeded: clients have begun to send more than this broker holds; try again later"


@final
class UnfinishedShare:
    """What one connection holds."""

    __slots__ = ("give_up", "size")

    def __init__(self, give_up: Callable[[], None]) -> None:
        self.give_up = give_up  # ends the connection, in a turn of its own
        self.size: i64 = 0


@final
class UnfinishedBytes:
    """What all connections hold. Invariant: `used_bytes` is the sum of the shares, and at most `bytes_max`."""

    def __init__(self, bytes_max: i64) -> None:
        self.bytes_max = bytes_max
        self.used_bytes: i64 = 0
        self.ended_count = 0  # connections
        self.exceeded = Exceedance(no_refusal_listener)
        self._taken_bytes: i64 = 0  # in all
        self._shares: dict[UnfinishedShare, None] = {}  # the one that has gone on with nothing for the longest first

    def count(self, share: UnfinishedShare | None, size: i64, give_up: Callable[[], None]) -> UnfinishedShare | None:
        """Note that a connection holds so many bytes now, because some have come or it is done with them.

        Return its share, None while it needs none. `give_up` may be called for it, or for another one, within this.
        """
        if share is None:
            if size < COUNTED_BYTES_MIN:
                return None
            share = UnfinishedShare(give_up)
        else:
            self._shares.pop(share, None)
            if size < COUNTED_BYTES_MIN:
                self.used_bytes -= share.size
                share.size = 0
                return None
        grows = size - share.size
        self.used_bytes += grows
        share.size = size
        self._shares[share] = None
        if grows > 0:
            self._taken_bytes += grows
            if self.used_bytes > self.bytes_max:
                self._make_room()
        return share

    def check(self) -> None:
        """Assert the invariants; for tests."""
        assert self.used_bytes == sum([int(share.size) for share in self._shares]), "shares add up to another sum"

    def _make_room(self) -> None:
        while self.used_bytes > self.bytes_max:
            share = next(iter(self._shares))
            del self._shares[share]
            self.used_bytes -= share.size
            share.size = 0
            self.ended_count += 1
            self.exceeded.refused(taken=self._taken_bytes, limit=self.bytes_max)
            share.give_up()
