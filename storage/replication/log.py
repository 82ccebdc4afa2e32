"""The log of a broker as one of its replicas has it: reads it, takes over, and appends to it.

What the replica's rules say (`storage.replication.replica`) is done here, over a stream that may be slow, away, or
answer late. An append has no limit of tries: until its outcome is known nobody can be told anything, and nothing else
can be appended.

One reason may last: a stream that is full. Then the record is given up, unless it is stored before that. What gives it
up is a small message, so as long as the stream takes those, an owner can store what makes room.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable, Sequence
from typing import Final, final

from sluicegate.storage.replication.messages import has_record
from sluicegate.storage.replication.replica import Append, OwnershipLost, Record, Replica, Role
from sluicegate.storage.replication.stream import Stream, StreamFull, StreamUnavailable

IN_FLIGHT: Final = 8  # messages of one record whose answers are awaited together
AGAIN_S_MIN: Final = 0.05  # between two tries
AGAIN_S_MAX: Final = 1.0
READ_WAIT_S: Final = 1.0
REFUSALS_TOLD: Final = 10  # an owner takes over after fewer of them, unless something is wrong

log = logging.getLogger("sluicegate.cluster")


@final
class ReplicatedLog:
    """One replica's end of the log. Use it from one task at a time, but for `raise_level`."""

    def __init__(
        self,
        replica: Replica,
        stream: Stream,
        *,
        wall_ms: Callable[[], int],
        take: Callable[[Sequence[Record]], None],
        rng: random.Random,
    ) -> None:
        """`take` is called with the records that are read: by a standby, and by a replica that takes over.

        It gets those that came together, and has them before the replica reads a message of another kind: what an epoch
        changes is seen when the records before it are taken.
        """
        self.replica: Final = replica
        self._stream = stream
        self._wall_ms = wall_ms
        self._take = take
        self._rng = rng
        self._unknown = 0  # the last place for which a message of the record was sent without an answer
        self._full: StreamFull | None = None  # what the servers said: the record is to be given up
        self._appending: Final = asyncio.Lock()
        self._is_raising = False  # the outcome of a message that raises the level is unknown
        self._unsent: bytes | None = None  # a record that waits for that

    async def read(self, wait_s: float = READ_WAIT_S) -> int:
        """Read what the stream has next, or wait so long for something; return the number of messages.

        Raises StreamUnavailable, LogTrimmed when the stream was trimmed beyond what this replica has, and what a
        message raises that counts and cannot be read.
        """
        messages = await self._stream.read(self.replica.read_through, wait_s)
        records: list[Record] = []
        try:
            for sequence, data in messages:
                if records and not has_record(data):
                    taken, records = records, []
                    self._take(taken)
                record = self.replica.read(sequence, data)
                if record is not None:
                    records.append(record)
        finally:
            if records:
                self._take(records)
        return len(messages)

    async def take_over(self, revision: int) -> None:
        """Become the owner, with the revision of the key that this replica has taken.

        It waits while the servers do not answer, and while the stream is full. Raises OwnershipLost when another
        replica took the key later, StreamRefused, and what `read` raises: then the replica is a standby.
        """
        self.replica.take_key(revision)
        try:
            await self._until_owner()
        finally:
            if self.replica.role is not Role.OWNER:
                self.replica.step_down()
        if self.replica.role is not Role.OWNER:
            raise OwnershipLost(f"a later owner than that of epoch {self.replica.epoch} has taken over")

    async def _until_owner(self) -> None:
        delay_s = AGAIN_S_MIN
        told: Exception | None = None
        refused_count = 0
        while self.replica.role is Role.TAKING:
            try:
                append = self.replica.append_epoch((await self._stream.bounds()).last, self._wall_ms())
                if append is not None and await self._stream.append(append) is None:
                    refused_count += 1
                    if refused_count == REFUSALS_TOLD:
                        log.warning("the first message of this owner is refused behind message %d", append.expected)
                await self.read()
                delay_s = AGAIN_S_MIN
                continue
            except StreamFull as error:
                if not isinstance(told, StreamFull):
                    log.error("no owner can be, for the log does not take its first message; trying again: %s", error)
                told = error
            except StreamUnavailable as error:
                if told is None:
                    log.warning("the log cannot be taken over yet; trying again: %s", error)
                told = told or error
            delay_s = await self._wait(delay_s)

    async def append(self, record: bytes) -> int:
        """Append a record, and return its number when a majority of the servers has it.

        Raises OwnershipLost: another replica is the owner, and this record is not in the log. Raises StreamFull: it is
        not in the log either, and the replica is the owner as before; the next record has its number. Raises
        StreamRefused: nobody knows, and `append_again` comes next.
        """
        async with self._appending:
            self._unsent = record
            return await self._append_unsent()

    async def _append_unsent(self) -> int:
        await self._settle_level()
        record, self._unsent = self._unsent, None
        assert record is not None
        number = self.replica.next_number()
        await self._append(self.replica.propose(record, self._wall_ms()))
        return number

    async def close(self, clean: bytes) -> None:
        """Append a clean message, the last one of this owner: return when it is stored. Raises as `append`."""
        async with self._appending:
            await self._settle_level()
            await self._append(self.replica.close(clean, self._wall_ms()))

    async def raise_level(self, level: int) -> bool:
        """Raise the feature level of the log, between two records; return whether it has that level now.

        False: the outcome of a record is unknown. Raises as `append`; when nobody knows what was stored, the next
        record or a later call finds out.
        """
        async with self._appending:
            await self._settle_level()
            if not self.replica.is_waiting() and self.replica.level < level:
                self._is_raising = True
                try:
                    await self._append(self.replica.raise_level(level, self._wall_ms()))
                except StreamFull:
                    self._is_raising = False
                    raise
                self._is_raising = False
            return self.replica.level >= level

    async def _settle_level(self) -> None:
        """Find out whether a message that was to raise the level is stored, before anything else is sent.

        Raises OwnershipLost, and StreamRefused: nobody knows as before.
        """
        if self._is_raising and self.replica.role is Role.OWNER:
            with contextlib.suppress(StreamFull):
                await self._until_stored(self._next(), may_withdraw=False)
        self._is_raising = False
        if self.replica.role is not Role.OWNER:
            raise OwnershipLost("this replica is not the owner of the log")

    async def _append(self, appends: list[Append]) -> None:
        """Append the messages of another record."""
        self._unknown, self._full = 0, None
        await self._until_stored(appends, may_withdraw=True)

    async def hand_over_to(self, site: str) -> None:
        """Append that this owner's site gives the broker up to another one; nothing is appended after that.

        It waits while the servers do not answer. Raises as `append`; after StreamRefused nobody knows.
        """
        async with self._appending:
            await self._settle_level()
            await self._append(self.replica.hand_over(site, self._wall_ms()))

    async def append_again(self) -> None:
        """Go on with the record of an `append` that raised StreamRefused; return when it is stored, or raise as that.

        What was stored of it is not sent again, and nothing of one that is being given up. Raises StreamFull as
        `append`.
        """
        async with self._appending:
            if self._unsent is None:
                await self._until_stored(self._next(), may_withdraw=False)
            else:
                await self._append_unsent()

    def _next(self) -> list[Append]:
        """Return what to send next: of a record that is being given up the message that does that, and no copy."""
        if self._full is None:
            return self.replica.retry()
        return [self.replica.cancel(self._wall_ms(), max(self._unknown, self.replica.oldest_place()))]

    async def _until_stored(self, appends: list[Append], *, may_withdraw: bool) -> None:
        delay_s = AGAIN_S_MIN
        while True:
            is_stored, said = await self._send(appends, may_withdraw=may_withdraw)
            is_news = self._full is None and said is not None
            self._full = self._full or said
            may_withdraw = False
            data: bytes | None = None
            if not is_stored and not self.replica.is_cancelled:
                try:
                    data = await self._stream.at(self.replica.oldest_place())
                except StreamUnavailable:
                    delay_s = await self._wait(delay_s)
                else:
                    is_stored = self.replica.look(data)
                    if data is None and not is_news:
                        delay_s = await self._wait(delay_s)
            if is_stored:
                return
            if self._full is not None and self.replica.is_cancelled:
                raise self._full
            appends = self._next()

    async def _send(self, appends: list[Append], *, may_withdraw: bool) -> tuple[bool, StreamFull | None]:
        """Send messages; return whether all of the record are stored, and that the stream is full if it says so.

        Raises StreamFull if nothing of the record is stored, or can be.
        """
        full: StreamFull | None = None
        refusal: BaseException | None = None
        for first in range(0, len(appends), IN_FLIGHT):
            part = appends[first : first + IN_FLIGHT]
            answers = await asyncio.gather(*[self._stream.append(each) for each in part], return_exceptions=True)
            for append, answer in zip(part, answers, strict=True):
                if isinstance(answer, int):
                    if self.replica.confirm(append, answer):
                        return True, None
                elif isinstance(answer, StreamFull):
                    full = answer
                elif answer is not None:
                    self._unknown = max(self._unknown, append.expected + 1)
                    refusal = refusal or (None if isinstance(answer, StreamUnavailable) else answer)
            if refusal is not None:
                raise refusal
            if (
                may_withdraw
                and full is not None
                and all(each is None or isinstance(each, StreamFull) for each in answers)
            ):
                self.replica.withdraw()
                raise full
            may_withdraw = False
            if any(not isinstance(answer, int) for answer in answers):
                break
        return False, full

    async def _wait(self, delay_s: float) -> float:
        """Wait before another try; return how long to wait before the next."""
        await asyncio.sleep(delay_s * self._rng.uniform(0.5, 1.0))
        return min(2 * delay_s, AGAIN_S_MAX)
