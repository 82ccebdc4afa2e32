"""The directory of a broker whose queues may move to other brokers of its network, and come from them.

It stores each step of a move, and puts it in force. A queue that comes is reached by nobody until its move is over; one
that has gone is remembered until every broker knows where it is.

See also: what may move, and what a move changes of a queue (actors.queues.directory.moves); who drives a move
(protocols.network.moves).
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sluicegate.actors.messages.data import StoreRefused
from sluicegate.actors.messages.directory import (
    NAMED,
    SESSION,
    SUBSCRIPTION,
    CheckSubscriptionMove,
    CreateQueue,
    DropReceivedQueue,
    EndMovedQueue,
    ForgetMovedQueue,
    ListMoves,
    LocalQueue,
    Moves,
    QueueExists,
    ReceiveQueue,
    SetQueueMove,
    UpdateRefused,
)
from sluicegate.actors.queues.directory.directory import QueueDirectory
from sluicegate.actors.queues.directory.moves import check_may_move, put_in_force
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.messaging.observability.events import (
    VPN_QUEUE_CREATED,
    VPN_QUEUE_DELETED,
    VPN_QUEUE_MOVE,
    VPN_QUEUE_MOVE_CANCELLED,
    as_word,
)
from sluicegate.messaging.queues.moves import RECEIVING, MovedQueue, QueueMove
from sluicegate.storage.catalog.partition_owners import owner_rows_deleted
from sluicegate.storage.catalog.queues import moved_queues, moved_row, moved_row_deleted, queue_row_deleted
from sluicegate.storage.interface import Table, TableWrite


class NetworkQueueDirectory(QueueDirectory):
    """All queues of a message VPN, of which some may be on their way to or from another broker."""

    _moved: dict[str, MovedQueue]  # away from here, while not every broker knows of it

    def on_start(self) -> None:
        """Restore what the catalog has."""
        self._moved = {each.name: each for each in moved_queues(self._catalog)}
        super().on_start()

    def handlers_of_moves(self) -> dict[type, Callable[[Any], Any]]:
        """Return who handles what brokers of the network ask when a queue moves."""
        return {
            SetQueueMove: self._set_move,
            CheckSubscriptionMove: self._check_subscription_move,
            ReceiveQueue: self._receive_queue,
            DropReceivedQueue: self._drop_received,
            EndMovedQueue: self._end_moved,
            ForgetMovedQueue: self._forget_moved,
            ListMoves: self._list_moves,
        }

    def _set_move(self, message: SetQueueMove) -> LoopFuture[LocalQueue]:
        name, move = message.name, message.move
        handle = self._unchanging(name)
        if handle.move is not None and handle.is_received and move is not None:
            raise UpdateRefused(handle.move.refusal(name))
        if handle.move is None and move is not None:
            kind = SESSION if move.session else SUBSCRIPTION if message.of_container else NAMED
            self._check_begins(handle, kind=kind, drops_kept=message.drops_kept)
        answer: LoopFuture[LocalQueue] = LoopFuture()
        was_received = handle.is_received
        changed = replace(handle, move=move)
        self._updates.begin(name)
        answer.then(lambda _: self._update_ended(name))

        def stored(reason: str) -> None:
            if reason:
                answer.set_exception((StoreRefused, StoreRefused(reason), None))
                return
            put_in_force(self._services, handle, move)
            self._queues.put(changed)
            if handle.move is None and move is not None:
                self._emit(VPN_QUEUE_MOVE, changed, f"is being moved to broker {as_word(move.broker)}")
            elif handle.move is not None and handle.move.stage != RECEIVING and move is None:
                what = f"stays: its move to broker {as_word(handle.move.broker)} was cancelled"
                self._emit(VPN_QUEUE_MOVE_CANCELLED, changed, what)
            if handle.move is not None and was_received and move is None:
                how = f"was moved here from broker {as_word(handle.move.broker)}"
                self._emit(VPN_QUEUE_CREATED, changed, how)
                self._attract(changed, lambda: answer.set(changed))
            else:
                answer.set(changed)

        session_rows = [TableWrite(Table.SESSIONS, key, value) for key, value in message.session_rows]
        self._write([*self._rows(changed, first_only=True), *session_rows], stored)
        return answer

    def _check_subscription_move(self, message: CheckSubscriptionMove) -> LocalQueue:
        handle = self._unchanging(message.name)
        if handle.move is not None:
            raise UpdateRefused(handle.move.refusal(message.name))
        self._check_begins(handle, kind=SUBSCRIPTION, drops_kept=False)
        return handle

    def _unchanging(self, name: str) -> LocalQueue:
        """Return a queue that is not about to be another. Raises UpdateRefused."""
        handle = self._queues.by_name.get(name)
        if handle is None or name in self._queues.making or self._updates.is_under_way(name):
            raise UpdateRefused(f"queue {name!r} is not there, or is being changed: try again")
        return handle

    def _check_begins(self, handle: LocalQueue, *, kind: str, drops_kept: bool) -> None:
        """Raise UpdateRefused for a queue that cannot begin to move."""
        if self._rescales.pending(handle.name) is not None:
            raise UpdateRefused(f"the number of partitions of {handle.name!r} is about to change: try again later")
        check_may_move(self._services, handle, kind=kind, drops_kept=drops_kept)

    def _receive_queue(self, message: ReceiveQueue) -> LoopFuture[LocalQueue]:
        name, move = message.definition.config.name, QueueMove(RECEIVING, message.broker, self.runtime.clock.wall_ms())
        found = self._queues.by_name.get(name)
        if found is None:
            return self._create(CreateQueue(message.definition, message.kind, durable=True), move=move)
        if found.move is None or not found.move.is_from(message.broker):
            raise QueueExists(name)
        answer: LoopFuture[LocalQueue] = LoopFuture()
        made = self._queues.making.get(name)
        if made is not None:
            return made
        answer.set(found)
        return answer

    def _drop_received(self, message: DropReceivedQueue) -> LoopFuture[bool] | bool | None:
        handle = self._queues.by_name.get(message.name)
        if handle is None or handle.move is None or not handle.move.is_from(message.broker):
            return None
        count = int(handle.target.gate.usage_count)
        if count:
            raise UpdateRefused(f"{count} messages of {message.name!r} are at its new broker already")
        return self._delete_queue(handle)

    def _end_moved(self, message: EndMovedQueue) -> LoopFuture[None]:
        moved = message.moved
        answer: LoopFuture[None] = LoopFuture()
        handle = self._queues.by_name.get(moved.name)
        self._moved[moved.name] = moved
        if handle is None:  # it is asked again
            answer.set(None)
            return answer
        rows = [queue_row_deleted(handle.name), *owner_rows_deleted(self._rescales.stored_queue(handle).partition_ids)]
        self._end(handle)
        self._emit(VPN_QUEUE_DELETED, handle, f"was moved to broker {as_word(moved.broker)}")
        session_rows = [TableWrite(Table.SESSIONS, key, None) for key in message.session_keys]
        self._write([*rows, *session_rows, moved_row(moved)], lambda _: answer.set(None), until_done=True)
        return answer

    def _forget_moved(self, message: ForgetMovedQueue) -> None:
        if self._moved.pop(message.name, None) is not None:
            self._write([moved_row_deleted(message.name)], lambda _: None, until_done=True)

    def _list_moves(self, _: ListMoves) -> Moves:
        moving = [handle for _, handle in sorted(self._queues.by_name.items()) if handle.move is not None]
        return Moves(moving, list(self._moved.values()))
