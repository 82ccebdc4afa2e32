"""The log of a broker as one of its replicas has it: reads it, takes over, and appends to it.

What the replica's rules say (`storage.replication.replica`) is done here, over a stream that may be slow, away, or
answer late. An append has no limit of tries: until its outcome is known nobody can be told anything, and nothing else
can be appended.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Final, final

from sluicegate.storage.replication.replica import Append, OwnershipLost, Record, Replica, Role
from sluicegate.storage.replication.stream import Stream, StreamFull, StreamUnavailable

IN_FLIGHT: Final = 8  # messages of one record whose answers are awaited together
AGAIN_S_MIN: Final = 0.05  # between two tries
AGAIN_S_MAX: Final = 1.0
READ_WAIT_S: Final = 1.0


@final
class ReplicatedLog:
    """One replica's end of the log. Use it from one task at a time."""

    def __init__(
        self,
        replica: Replica,
        stream: Stream,
        *,
        wall_ms: Callable[[], int],
        take: Callable[[Record], None],
        rng: random.Random,
    ) -> None:
        """`take` is called with each record that is read: by a standby, and by a replica that takes over."""
        self.replica: Final = replica
        self._stream = stream
        self._wall_ms = wall_ms
        self._take = take
        self._rng = rng

    async def read(self, wait_s: float = READ_WAIT_S) -> int:
        """Read what the stream has next, or wait so long for something; return the number of messages.

        Raises StreamUnavailable, LogMissing when the stream was trimmed beyond what this replica has, and what a
        message raises that counts and cannot be read.
        """
        messages = await self._stream.read(self.replica.read_through, wait_s)
        for sequence, data in messages:
            record = self.replica.read(sequence, data)
            if record is not None:
                self._take(record)
        return len(messages)

    async def take_over(self, revision: int) -> None:
        """Become the owner, with the key's revision as the epoch.

        Raises OwnershipLost when another replica took the key later, EpochTooLow when the log has a later epoch than
        the key, and what `read` raises, except StreamUnavailable.
        """
        self.replica.take_key(revision)
        delay_s = AGAIN_S_MIN
        while self.replica.role is Role.TAKING:
            try:
                append = self.replica.append_epoch((await self._stream.bounds()).last, self._wall_ms())
                if append is not None:
                    await self._stream.append(append)
                await self.read()
                delay_s = AGAIN_S_MIN
            except StreamUnavailable:
                delay_s = await self._wait(delay_s)
        if self.replica.role is not Role.OWNER:
            raise OwnershipLost(f"a later owner than that of epoch {revision} has taken over")

    async def append(self, record: bytes) -> int:
        """Append a record, and return its number when a majority of the servers has it.

        Raises OwnershipLost: another replica is the owner, and this record is not in the log. Raises StreamFull: it is
        not in the log either, and the replica is the owner as before. Raises StreamRefused: nobody knows, and
        `append_again` comes next.
        """
        number = self.replica.next_number()
        await self._until_stored(self.replica.propose(record, self._wall_ms()), may_withdraw=True)
        return number

    async def append_again(self) -> None:
        """Go on with the record of an `append` that raised StreamRefused; return when it is stored, or raise as that.

        What was stored of it is not sent again.
        """
        await self._until_stored(self.replica.retry(), may_withdraw=False)

    async def _until_stored(self, appends: list[Append], *, may_withdraw: bool) -> None:
        delay_s = AGAIN_S_MIN
        while not await self._send(appends, may_withdraw=may_withdraw):
            may_withdraw = False
            try:
                data = await self._stream.at(self.replica.oldest_place())
            except StreamUnavailable:
                delay_s = await self._wait(delay_s)
            else:
                if self.replica.look(data):
                    break
                if data is None:
                    delay_s = await self._wait(delay_s)
            appends = self.replica.retry()

    async def _send(self, appends: list[Append], *, may_withdraw: bool) -> bool:
        """Send messages; return whether all of the record are stored. Raises StreamFull if nothing of it can be."""
        for first in range(0, len(appends), IN_FLIGHT):
            part = appends[first : first + IN_FLIGHT]
            answers = await asyncio.gather(*[self._stream.append(each) for each in part], return_exceptions=True)
            for append, answer in zip(part, answers, strict=True):
                if isinstance(answer, int):
                    if self.replica.confirm(append, answer):
                        return True
                elif isinstance(answer, StreamFull) and may_withdraw and append is appends[0]:
                    self.replica.withdraw()
                    raise answer
                elif isinstance(answer, BaseException) and not isinstance(answer, StreamFull | StreamUnavailable):
                    raise answer
            if any(not isinstance(answer, int) for answer in answers):
                return False
        return False

    async def _wait(self, delay_s: float) -> float:
        """Wait before another try; return how long to wait before the next."""
        await asyncio.sleep(delay_s * self._rng.uniform(0.5, 1.0))
        return min(2 * delay_s, AGAIN_S_MAX)
