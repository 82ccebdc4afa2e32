"""The directory of named publishers: the connection of each, and the state of those without one."""

import logging
import struct

import pykka

from sluicegate.actors.messages.data import Confirmed, PublishFailed, SessionRows, StoreRefused
from sluicegate.actors.messages.directory import UpdateRefused
from sluicegate.actors.messages.named_publishers import (
    AdoptPublisher,
    DropPublisherCopy,
    EndHeldPublisher,
    FindPublisherCopy,
    FreePublisher,
    HoldPublisher,
    NotePublisherCopy,
)
from sluicegate.actors.runtime.actor import LoopActor
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.actors.runtime.tasks import run
from sluicegate.messaging.limits.totals import SharedTotal
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.queues.definition import ANONYMOUS
from sluicegate.protocols.flow.publishers.publisher import (
    ROW_PREFIX,
    ClaimPublisher,
    FencePublisher,
    NamedPublisher,
    PublisherMoves,
    PublisherNotStored,
    PublisherOfAnother,
    ReleasePublisher,
    RestorePublishers,
    TooManyPublishers,
    place_of_row,
)

log = logging.getLogger("sluicegate.flow")

SWEEP_MS = 60_000  # interval of the sweep for expired publishers
LOOK_AGAIN_MS = 10  # recheck of publications that a commit has not decided


class PublisherDirectory(LoopActor):
    """All named publishers of a message VPN."""

    def __init__(
        self,
        cell: ActorCell,
        *,
        spool: Address,
        row_prefix: bytes,
        publishers_max: int,
        remembered_ms: int,
        incarnation: int,
        is_retired: bool,
    ) -> None:
        """`incarnation` is that of the spool. `is_retired`: the broker gets no new publishers."""
        super().__init__(cell)
        self.publishers_max = publishers_max
        self.remembered_ms = remembered_ms  # how long a publisher is kept that is not opened
        self.shared: SharedTotal | None = None  # publishers of other brokers of this machine count, too
        self._spool = spool
        self._row_prefix = row_prefix  # before the keys of its rows
        self._by_name: dict[str, NamedPublisher] = {}
        self._connections: dict[str, ActorCell] = {}  # of the publishers that are open
        self._incarnation = incarnation
        self._is_retired = is_retired
        self._held: dict[str, None] = {}  # publishers that move to another broker
        self._claims: dict[str, LoopFuture[None]] = {}  # the claim under way for a name, others wait behind it
        self._answers: dict[int, LoopFuture[str]] = {}
        self._next_token = 1
        self.handlers = {
            ClaimPublisher: lambda message: run(self.runtime, self._claim(message)),
            ReleasePublisher: self._release,
            RestorePublishers: self._restore,
            FindPublisherCopy: lambda message: self._copy_at(message.name),
            DropPublisherCopy: lambda message: run(self.runtime, self._drop_copy(message.name)),
            NotePublisherCopy: lambda message: run(self.runtime, self._note_copy(message.name, message.broker)),
            HoldPublisher: lambda message: run(self.runtime, self._hold(message.name)),
            FreePublisher: lambda message: self._held.pop(message.name, None),
            EndHeldPublisher: lambda message: run(self.runtime, self._end_held(message.name)),
            AdoptPublisher: lambda message: run(self.runtime, self._adopt(message)),
            Confirmed: lambda message: self._answered(message.token, ""),
            PublishFailed: lambda message: self._answered(message.token, message.reason),
        }

    @property
    def count(self) -> int:
        """How many publishers are known, with a connection or without."""
        return len(self._by_name)

    def names(self) -> list[str]:
        """Return the names of all publishers."""
        return list(self._by_name)

    def on_start(self) -> None:
        """Start the sweep for expired publishers."""
        self.cell.after(SWEEP_MS, self._sweep)

    async def _claim(self, message: ClaimPublisher) -> NamedPublisher:
        """Bring a publisher to a connection. Claims for one name are served one after the other."""
        await self._begin_turn(message.name)
        try:
            return await self._serve(message)
        finally:
            self._end_turn(message.name)

    async def _begin_turn(self, name: str) -> None:
        while name in self._claims:
            await self._claims[name]
        self._claims[name] = LoopFuture()

    def _end_turn(self, name: str) -> None:
        self._claims.pop(name).set(None)

    async def _serve(self, message: ClaimPublisher) -> NamedPublisher:
        name, connection, user = message.name, message.connection, message.user
        publisher = self._by_name.get(name)
        if name in self._held or (publisher is None and self._is_retired):
            raise PublisherMoves(f"publisher {name!r} is being moved to another broker of this machine")
        if publisher is None:
            shared, count = self.shared, len(self._by_name) + 1
            if count > self.publishers_max or (shared is not None and not shared.admits(count, self.publishers_max)):
                raise TooManyPublishers(f"{self.publishers_max} publishers are known, and there may be no more")
            publisher = self._by_name[name] = NamedPublisher(name, self._row_prefix)
        if publisher.user not in (ANONYMOUS, user):
            raise PublisherOfAnother(f"403 Permission Denied: the publisher {name!r} is another user's")
        publisher.user = user
        await self._fence(publisher)
        await self._decide(publisher)
        publisher.begin_again(message.window)
        publisher.owner = connection.inbox
        self._connections[name] = connection
        refusal = await self._write(publisher.opened_rows())
        if refusal:
            self._release(ReleasePublisher(publisher, publisher.epoch))
            raise PublisherNotStored(refusal)
        publisher.is_copy = False  # all brokers agree that this is its home, or it would not be opened here
        return publisher

    async def _fence(self, publisher: NamedPublisher, *, moves: bool = False) -> None:
        """Take the publisher from the connection that has it."""
        before = self._connections.pop(publisher.name, None)
        publisher.owner = None
        if before is not None:
            try:
                await before.ask(FencePublisher(publisher, moves))
            except pykka.ActorDeadError:
                log.debug("publisher %r: its connection was gone already", publisher.name)

    async def _decide(self, publisher: NamedPublisher) -> None:
        """Wait until the store has decided about everything that the last connection published."""
        publisher.settle_undecided()
        while publisher.undecided:
            await self._write([])
            publisher.settle_undecided()
            if publisher.undecided:  # its partition has not numbered it yet
                over: LoopFuture[None] = LoopFuture()
                self.runtime.after(LOOK_AGAIN_MS, over.set)
                await over
                publisher.settle_undecided()

    def _release(self, message: ReleasePublisher) -> None:
        """Keep a publisher until it is opened again."""
        publisher = message.publisher
        if message.epoch != publisher.epoch or publisher.owner is None:
            return
        publisher.owner = None
        self._connections.pop(publisher.name, None)
        publisher.idle_since_ms = self.runtime.clock.wall_ms()
        if publisher.undecided:
            run(self.runtime, self._decide(publisher))

    # --- publishers that move to another broker of this machine ---

    async def _hold(self, name: str) -> str | None:
        await self._begin_turn(name)
        try:
            publisher = self._by_name.get(name)
            if publisher is None:
                return None
            self._held[name] = None
            await self._fence(publisher, moves=True)
            await self._decide(publisher)
            publisher.idle_since_ms = self.runtime.clock.wall_ms()
            return publisher.record(self._incarnation)
        finally:
            self._end_turn(name)

    def _copy_at(self, name: str) -> str:
        publisher = self._by_name.get(name)
        return "" if publisher is None else publisher.copy_at

    async def _note_copy(self, name: str, broker: str) -> None:
        publisher = self._by_name.get(name)
        if publisher is not None and publisher.copy_at != broker:
            refusal = await self._write([publisher.copy_row(broker)])
            if refusal:
                raise StoreRefused(refusal)
            publisher.is_copy, publisher.copy_at = False, broker

    async def _drop_copy(self, name: str) -> None:
        await self._begin_turn(name)
        try:
            known = self._by_name.get(name)
            if known is None:
                return
            if not known.is_copy:
                raise UpdateRefused(f"publisher {name!r} was opened there as well")
            refusal = await self._write(known.rows_to_delete())
            if refusal:
                raise StoreRefused(refusal)
            del self._by_name[name]
        finally:
            self._end_turn(name)

    async def _end_held(self, name: str) -> None:
        publisher = self._by_name.get(name)
        if publisher is not None:
            refusal = await self._write(publisher.rows_to_delete())
            if refusal:
                raise StoreRefused(refusal)
            del self._by_name[name]
        self._held.pop(name, None)

    async def _adopt(self, message: AdoptPublisher) -> None:
        """Have a publisher. What is known here of one is of an earlier try: until now, all found it at its old home."""
        name = message.name
        await self._begin_turn(name)
        try:
            publisher = NamedPublisher(name, self._row_prefix)
            publisher.take_over(message.record, self._incarnation)
            known = self._by_name.get(name)
            if known is not None and known.epoch > publisher.epoch:
                raise UpdateRefused(f"publisher {name!r} was opened there as well, and later")
            if known is not None:
                await self._fence(known, moves=True)
                await self._decide(known)
                publisher.replaces(known)
            refusal = await self._write(publisher.rows())
            if refusal:
                raise StoreRefused(refusal)
            publisher.idle_since_ms = self.runtime.clock.wall_ms()
            self._by_name[name] = publisher
        finally:
            self._end_turn(name)

    async def _write(self, rows: list[tuple[bytes, bytes | None]] | list[tuple[bytes, bytes]]) -> str:
        """Write rows, behind everything the spool has so far. Return why they could not be written, or nothing."""
        token = self._next_token
        self._next_token += 1
        answer: LoopFuture[str] = LoopFuture()
        self._answers[token] = answer
        self._spool.post(SessionRows([(key, value) for key, value in rows], self.cell.inbox, token))
        return await answer

    def _answered(self, token: int, refusal: str) -> None:
        answer = self._answers.pop(token, None)
        if answer is not None:
            answer.set(refusal)

    def _restore(self, message: RestorePublishers) -> int:
        """Restore the stored publishers. They count as used now: the time of their last use is not stored."""
        for key, value in message.rows.items():
            if not key.startswith(ROW_PREFIX):
                continue
            try:
                name, place = place_of_row(key)
                publisher = self._by_name.setdefault(name, NamedPublisher(name, self._row_prefix))
                publisher.restore(place, value)
            except (ValueError, struct.error) as error:
                log.error("cannot read the stored row of a publisher: %s", error)
                continue
            publisher.idle_since_ms = self.runtime.clock.wall_ms()
            publisher.was_cut_off = not message.was_clean
        for name in message.stale & self._by_name.keys():
            stale = self._by_name.pop(name)
            self._spool.post(SessionRows(stale.rows_to_delete(), None, 0, until_done=True))
        return len(self._by_name)

    def _sweep(self) -> None:
        """Drop publishers that were not opened for too long."""
        if self.cell.is_stopped():
            return
        oldest_ms = self.runtime.clock.wall_ms() - self.remembered_ms
        for publisher in list(self._by_name.values()):
            is_claimed = publisher.name in self._claims or publisher.name in self._held
            if publisher.owner is None and not is_claimed and publisher.idle_since_ms < oldest_ms:
                del self._by_name[publisher.name]
                self._spool.post(SessionRows(publisher.rows_to_delete(), None, 0, until_done=True))
        self.cell.after(SWEEP_MS, self._sweep)
