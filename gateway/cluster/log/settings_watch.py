"""Compares the settings of stream, bucket and object store with what they must be, while a replica runs.

Whoever has rights at the NATS servers can change them at any time. While the stream has settings with which it could
lose what it confirms, nothing is appended, so nothing is confirmed.
"""

import asyncio
from collections.abc import Callable
from typing import Final, final

from sluicegate.gateway.cluster.log.servers import Servers, described
from sluicegate.storage.replication.servers import that_lose
from sluicegate.storage.replication.stream import StreamRefused, StreamUnavailable

LOOK_S: Final = 60.0  # between two looks
LOOK_AGAIN_S: Final = 5.0  # after one that found something: all goes on soon after it was put right


@final
class SettingsWatch:
    """The watch of one replica, over the connection of its spool."""

    def __init__(self, servers: Servers, copies: int, report: Callable[[str], None]) -> None:
        """`copies`: servers that must keep each record. `report` is told what differs, when that changes."""
        self._servers: Final = servers
        self._copies: Final = copies
        self._report: Final = report
        self._reported = ""
        self.held_back = ""  # why nothing may be appended; empty if it may

    async def look(self) -> None:
        """Compare. Raises StreamUnavailable: nothing is known that was not known before.

        What refuses an answer is reported, and the others are compared: if the stream is gone, it takes nothing; the
        bucket may go alone.
        """
        told: list[str] = []
        for what, ask in self._servers.differences_of().items():
            try:
                settings = await ask()
            except StreamRefused as refusal:
                told.append(str(refusal))
                continue
            if settings:
                told.append(described(what, settings))
            if what == self._servers.stream:
                lossy = that_lose(settings, self._copies)
                self.held_back = described(what, lossy) if lossy else ""
        text = "; ".join(told)
        if text and text != self._reported:
            self._report(text)
        self._reported = text

    async def keep_looking(self, hold_back: Callable[[str], None]) -> None:
        """Look for as long as the replica runs. `hold_back` is told why nothing may be appended, after each look."""
        while True:
            await asyncio.sleep(LOOK_AGAIN_S if self._reported else LOOK_S)
            try:
                await self.look()
            except StreamUnavailable:
                continue
            hold_back(self.held_back)
