"""The store writes of one session, and the callbacks that wait for them."""

from collections.abc import Callable
from typing import Final

from sluicegate.actors.messages.data import SessionRows, StoreRefused
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.actors.runtime.inbox import Flushed, Scheduled
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.publication import Publication
from sluicegate.protocols.mqtt.codec.events import Will
from sluicegate.protocols.mqtt.session.session import Session
from sluicegate.protocols.mqtt.session.will import will_to_row

LOOK_AGAIN_MS: Final = 1  # a partition with a full inbox assigns sequences within a few turns of the loop


class SessionWrites(Flushed):
    """The writes of one connection's session. Their tokens count down from -1; those of publishes count up."""

    def __init__(self, cell: ActorCell, spool: Address, session: Session) -> None:
        self._cell = cell
        self._spool = spool
        self._next_token = -1
        self._written: dict[int, LoopFuture[None]] = {}
        self._after_ids: list[Callable[[], None]] | None = None  # None: no callback waits for the end of the turn
        # Publications without all their sequences: the spool does not have them yet. None: there are none.
        self._incomplete: list[Publication] | None = None
        self._is_abandoned = False
        self._session = session

    def confirmed(self, token: int) -> None:
        """A write is stored."""
        self._written.pop(token).set(None)

    def refused(self, token: int, reason: str) -> None:
        """A write was refused."""
        error = StoreRefused(reason)
        self._written.pop(token).set_exception((StoreRefused, error, None))

    def abandon(self) -> None:
        """Stop writing: the session leaves its connection, or its client is gone.

        Packet ids that wait for the end of the turn go to the store now, before the session's next owner writes or
        deletes its rows. Requests that wait for a write continue without it; packets behind one are not sent.
        """
        if self._after_ids is not None and not self._is_abandoned:
            self._spool.post(SessionRows(self._ids_rows(), None, 0))
        self._is_abandoned = True
        written, self._written = self._written, {}
        for each in written.values():
            each.set(None)

    async def store_session(self, will: Will | None) -> None:
        """Have the session's state written, and wait until it is safe. Raises StoreRefused."""
        session = self._session
        if self._is_abandoned:
            return
        row = session.state_row(will=will_to_row(will), closed_wall_ms=0)
        rows = session.unstored_rows()
        if row != session.stored_row:
            rows.append((session.state_key(), row))
        session.set_stored_row(b"")
        await self._store(rows)

    async def store_subscriptions(self) -> None:
        """Have what has changed of the subscriptions written, and wait until it is safe. Raises StoreRefused."""
        if not self._is_abandoned:
            await self._store(self._session.unstored_rows())

    async def _store(self, rows: list[tuple[bytes, bytes | None]]) -> None:
        if not rows:
            return  # most clients repeat their subscriptions on each connect
        await self._write(rows)
        if not self._is_abandoned:
            self._session.all_stored()

    def before_exactly_once(self, callback: Callable[[], None], publication: Publication | None) -> None:
        """Call back once the session's packet ids are in the store, and in no later commit the publication.

        Ids without their message would let it come twice: the publisher, which was not confirmed, sends it again.
        Several callers in one turn share a write.
        """
        if self._after_ids is None:
            self._after_ids = []
            self._cell.runtime.dispatcher.at_turn_end(self)
        self._after_ids.append(callback)
        if publication is not None and publication.unsequenced_count > 0:
            if self._incomplete is None:
                self._incomplete = []
            self._incomplete.append(publication)

    def forget_received(self, first: int, last: int, callback: Callable[[], None]) -> None:
        """Call back once the store no longer has these ids as those of received publishes."""
        session = self._session
        if self._is_abandoned:
            return
        rows: list[tuple[bytes, bytes | None]] = [
            (session.received_key(packet_id), None) for packet_id in range(first, last + 1)
        ]
        self._write(rows).then(lambda done: self._run_all(done, [callback]))

    def owner(self) -> Scheduled | None:
        """Return the connection's actor."""
        return self._cell

    def flush(self) -> None:
        """Have the packet ids written, at the end of a turn."""
        if self._is_abandoned:
            self._after_ids = None  # the callbacks reference the owner of these writes
            return
        self._incomplete = [each for each in self._incomplete or () if each.unsequenced_count > 0] or None
        if self._incomplete is not None:
            self._cell.after(LOOK_AGAIN_MS, self.flush)
            return
        callbacks, self._after_ids = self._after_ids or [], None
        self._write(self._ids_rows()).then(lambda done: self._run_all(done, callbacks))

    def _ids_rows(self) -> list[tuple[bytes, bytes | None]]:
        row = self._session.ids_row()
        return [] if row is None else [(self._session.ids_key(), row)]

    def _write(self, rows: list[tuple[bytes, bytes | None]]) -> LoopFuture[None]:
        token = self._next_token
        self._next_token -= 1
        written: LoopFuture[None] = LoopFuture()
        self._written[token] = written
        self._spool.post(SessionRows(rows, self._cell.inbox, token))
        return written

    def _run_all(self, written: LoopFuture[None], callbacks: list[Callable[[], None]]) -> None:
        """Run the callbacks of a write. After a refusal the connection ends, and none runs."""
        if self._is_abandoned or written.error() is not None:
            return
        for callback in callbacks:
            callback()
