"""The move of one queue, as its old home drives it.

1. The new home makes the queue, which nobody reaches there yet. Here its consumers leave, and none may come.
2. The contents go over the link, oldest first, while publishers go on: new messages join the tail here.
3. When little is left, every broker of the network holds what is published to the queue, and what it has sent before is
   stored here. The rest goes over, until nothing is left here and the new home has stored everything.
4. The new home stores that it is the home. That decides. Before, whatever fails ends the holds, and the move goes on
   with step 2; nothing is lost by that, for contents that are there already are the older ones. Once the new home was
   asked, this broker does not know who is the home, takes nothing for the queue, and asks until it is told.
5. The queue ends here. The holds end, each as soon as its broker knows the new home.

Nobody decides by the clock who the home is.
"""

import logging
from collections.abc import Callable
from typing import Final, final

from sluicegate.actors.messages.data import StoreRefused
from sluicegate.actors.messages.directory import (
    SESSION,
    EndMovedQueue,
    ForgetMovedQueue,
    LocalQueue,
    SetQueueMove,
    UpdateRefused,
)
from sluicegate.actors.messages.operations import HandedOver, HandOver
from sluicegate.actors.messages.readers import CursorOverview, DeleteCursor, ListCursors
from sluicegate.actors.messages.router import ListSelectors, SelectorOverview
from sluicegate.actors.messages.sessions import EndHeldSession, HeldSession, HoldSession
from sluicegate.actors.queues.directory.moves import shut_for_commit
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.actors.runtime.events import Events
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.actors.runtime.tasks import run
from sluicegate.messaging.bulk.durable_cursors import CursorRefused
from sluicegate.messaging.queues.definition import topics_of
from sluicegate.messaging.queues.moves import COMMITTING, MOVING, MovedQueue, QueueMove, client_of, is_of_client
from sluicegate.protocols.network.guaranteed.kept import KeptLink
from sluicegate.protocols.network.guaranteed.queue_hold import QueueHold
from sluicegate.protocols.network.moves.holds import LOOK_AGAIN_MS, HasTold, QueueHolds, passed
from sluicegate.protocols.network.moves.move_wait import MoveWait
from sluicegate.protocols.network.moves.requests import MoveFailed, MoveRequests

AGAIN_MS: Final = 1_000  # after something that is not as it has to be
HANDED_OVER_AT_ONCE: Final = 1_000  # messages
LINK_BYTES_MAX: Final = 16 * 1024 * 1024  # in the link queue; beyond, the contents wait
LEFT_MAX: Final = 1_000  # messages that are left when publishers begin to wait
SWITCH_MS_MAX: Final = 5_000  # how long they wait for that, at most
PASSES_MAX: Final = 20  # over the contents, without getting to so few

# What the brokers ask of each other.
# Old home to new: make the queue; its definition and kind. Answered with the number of messages that it has.
RECEIVE: Final = "receive"
# Old home to new: be the home; the record of the session that it is of, or "", and durable selectors of its consumers:
# each a subscriber, its selectors, and when it was seen.
HOME: Final = "home"
ADOPT: Final = "adopt"  # old home to new: have the session of a queue that is not there; its record
ADOPT_PUBLISHER: Final = "adopt publisher"  # old home to new, with its name: have a named publisher; its record
DROP_PUBLISHER: Final = "drop publisher"  # old home to an earlier new one, with its name: delete the copy
STATE: Final = "state"  # old home to new: which are you?
DROP: Final = "drop"  # old home to new: the queue does not come; refused if it has messages
HOLD: Final = "hold"  # old home to all: the new home, filters, number of the attempt
RELEASE: Final = "release"  # old home to all: the new home, or "" for itself
ASK_HELD: Final = "held"  # all to old home: who is the home? the number of the attempt
ASK_MOVING: Final = "moving"  # new home to old: is the queue still to come?

# Answers to STATE and ASK_HELD, beside the name of a broker.
IS_HOME: Final = "home"
IS_RECEIVING: Final = "receiving"
IS_UNDECIDED: Final = "undecided"
HAS_NONE: Final = "none"

log = logging.getLogger("sluicegate.network")


@final
class Mover:
    """The move of one queue away from this broker."""

    def __init__(
        self,
        cell: ActorCell,
        handle: LocalQueue,
        to: str,
        *,
        broker: str,
        queues: ActorCell,
        router: ActorCell,
        sessions: ActorCell,
        cursors: ActorCell,
        holds: QueueHolds,
        links: dict[str, MoveRequests],
        kept: dict[str, KeptLink],
        events: Events,
    ) -> None:
        """`sessions` is the directory of MQTT sessions: the queue of one moves with it."""
        self.queue: Final = handle.name
        self.to: Final = to
        self.begun_ms: Final = 0 if handle.move is None else handle.move.begun_ms  # wall clock
        self.moved_count = 0  # messages that were handed over; at least so many
        self.wait: Final = MoveWait(handle.name, to, events=events, clock=cell.runtime.clock)
        self.is_switching = False  # holds are in force
        self.attempt = 0  # number of the latest
        self.moved: MovedQueue | None = None  # it is over: the queue has its new home
        self.is_cancelled = False  # it is over: the queue stays
        self._runtime = cell.runtime
        self._handle = handle
        self._broker = broker
        self._queues = queues
        self._router = router
        self._sessions = sessions
        self._session: HeldSession | None = None  # that moves with its queue
        self._cursors = cursors
        self._holds = holds
        self._links = links
        self._kept = kept
        self._cancelling: LoopFuture[None] | None = None
        self._is_without_new_home = False

    @property
    def left_count(self) -> int:
        """Messages that are still here."""
        return int(self._handle.target.gate.usage_count)

    def start(self) -> LoopFuture[None]:
        """Begin, or go on after a restart. It is answered when the move is over, or was cancelled."""
        return run(self._runtime, self._run())

    def cancel(self) -> LoopFuture[None]:
        """End the move, if nothing is at the new home yet. Raises UpdateRefused, later, if something is."""
        if self._cancelling is None:
            self._cancelling = LoopFuture()
        return self._cancelling

    def end_without_new_home(self) -> LoopFuture[None]:
        """End the move whatever the new home has, which was forgotten: nobody will say any more who is the home."""
        self._is_without_new_home = True
        return self.cancel()

    async def _run(self) -> None:
        while not self._queues.is_stopped():
            try:
                await self._hold_session()
                if self._is_undecided():
                    self.is_switching = True
                    if await self._is_decided():
                        return
                if await self._is_cancelled():
                    return
                await self._drop_cursors()
                received = await self._ask(RECEIVE, self._handle.definition.to_dict(), self._handle.kind)
                self._count_earlier(received)
                await self._hand_over_most()
                await self._switch()
                return
            except (MoveFailed, StoreRefused, UpdateRefused) as failure:
                self.wait.fails(str(failure))
            except Exception:  # a fault of ours: the queue must not stay in between
                if self._queues.is_stopped():
                    break
                log.exception("move of queue %s to broker %s: a step failed", self.queue, self.to)
                self.wait.fails("a fault of this broker; its log says more")
            await self._runtime.sleep(AGAIN_MS)

    async def _drop_cursors(self) -> None:
        """Delete durable cursors: a queue that has any moves only if that was asked for, and gets no new one."""
        found: list[CursorOverview] = await self._cursors.ask(ListCursors(self.queue))
        for each in found:
            try:
                await self._cursors.ask(DeleteCursor(self.queue, each.name))
            except CursorRefused:
                continue  # it was deleted meanwhile

    def _count_earlier(self, received: str) -> None:
        """Count what was handed over before this broker has started: the new home says how many messages it has."""
        if received.isdecimal():
            self.moved_count = max(self.moved_count, int(received))

    async def _hold_session(self) -> None:
        """Let no client have the session that the queue is of. A restart has found that it moves."""
        if self._handle.kind == SESSION and self._session is None:
            self._session = await self._sessions.ask(HoldSession(client_of(self.queue)))
            if self._session is None:
                raise MoveFailed(f"the session of {client_of(self.queue)!r} is not there")

    def _is_undecided(self) -> bool:
        """Return whether the new home was asked to be the home, and has not said whether it is."""
        move = self._handle.move
        return move is not None and move.stage == COMMITTING

    def _ask(self, what: str, *more: object) -> LoopFuture[str]:
        """Ask the new home."""
        link = self._links.get(self.to)
        if link is None:
            raise MoveFailed(f"there is no link to broker {self.to!r}")
        return link.ask(what, self.queue, *more)

    # --- cancelling ---

    async def _is_cancelled(self) -> bool:
        asked = self._cancelling
        if asked is None:
            return False
        try:
            if not self._is_without_new_home:
                # What is on its way is there afterwards, and keeps the queue there.
                await passed(self._link(), self._runtime, self._runtime.clock.now_ms() + SWITCH_MS_MAX)
                await self._ask(DROP)
            await self._set(None)
        except (MoveFailed, StoreRefused) as failure:
            self._cancelling = None
            asked.set_exception((UpdateRefused, UpdateRefused(f"the move goes on: {failure}"), None))
            return False
        self.is_cancelled = True
        asked.set(None)
        return True

    def _link(self) -> KeptLink:
        """Return what is kept of the link to the new home. Raises MoveFailed."""
        link = self._kept.get(self.to)
        if link is None or link.queue is None:
            raise MoveFailed(f"there is no link to broker {self.to!r}")
        return link

    # --- contents ---

    async def _hand_over_most(self) -> None:
        """Hand over until little is left."""
        for _ in range(PASSES_MAX):
            if self.left_count <= LEFT_MAX or self._cancelling is not None:
                break
            await self._hand_over(self._runtime.clock.now_ms() + 1_000 * AGAIN_MS)
        if self._cancelling is not None:
            raise MoveFailed("it is about to be cancelled")

    async def _hand_over(self, deadline_ms: int) -> None:
        """Hand over what there is now. Raises MoveFailed."""
        link = self._link().queue
        assert link is not None, "there is a link"
        for number in range(len(self._handle.target.partitions)):
            left = self.left_count
            while left > 0:
                while link.target.gate.usage_bytes >= LINK_BYTES_MAX:
                    self._check(deadline_ms, f"broker {self.to!r} takes the messages slowly")
                    await self._runtime.sleep(LOOK_AGAIN_MS)
                order = HandOver(number, self.queue, link.target, HANDED_OVER_AT_ONCE)
                done: HandedOver = await self._handle.cell.ask(order)
                self.moved_count += done.count
                left -= done.count
                if done.count:
                    self.wait.goes_on()
                elif done.held_up_by:
                    self._check(deadline_ms, f"a message cannot go: {done.held_up_by}")
                    await self._runtime.sleep(LOOK_AGAIN_MS)
                else:
                    break

    def _check(self, deadline_ms: int, text: str) -> None:
        link = self._links.get(self.to)
        if link is None or not link.is_up:
            raise MoveFailed(f"the link to broker {self.to!r} is down")
        if self._cancelling is not None or self._runtime.clock.now_ms() >= deadline_ms:
            raise MoveFailed(text)
        self.wait.waits(text)

    # --- the switch ---

    async def _switch(self) -> None:
        """Have the new home be the home. Raises MoveFailed: this broker still is."""
        for link in self._links.values():
            lack = link.lack_for_clients() if is_of_client(self.queue) else link.lack()
            if lack:
                raise MoveFailed(f"every broker of the network has to take part: {lack}")
        self.attempt = self._runtime.next_urn()
        filters = self._filters()
        self.is_switching = True
        failure: Exception | None = None
        try:
            await self._hold(filters)
            await self._empty()
            if not shut_for_commit(self._handle):
                raise MoveFailed("messages have come meanwhile")
        except Exception as failed:
            failure = failed
        if failure is None:
            try:
                await self._set(self._stage(COMMITTING))
            except (StoreRefused, UpdateRefused) as refused:
                failure = refused
                configured = self._handle.definition.config.ingress_enabled
                self._handle.target.gate.set_ingress_of_move(enabled=None, configured=configured)
        if failure is not None:
            await self._release_all()
            raise failure
        try:
            await self._ask(HOME, self._stage(COMMITTING).session, await self._selectors())
        except MoveFailed as unknown:
            failure = unknown
        if failure is None:
            await self._end()
            return
        self.wait.fails(str(failure))
        if not await self._is_decided():
            raise MoveFailed(f"broker {self.to!r} has not become the home") from failure

    async def _selectors(self) -> list[tuple[str, list[str], int]]:
        """Return the durable selectors of the queue's consumers: they say what enters it."""
        known: list[SelectorOverview] = await self._router.ask(ListSelectors())
        return [(each.subscriber, each.selectors, each.seen_ms) for each in known if each.queue == self.queue]

    def _filters(self) -> tuple[tuple[str, str], ...]:
        if self._session is not None:
            return self._session.filters
        return tuple([(each.text, each.syntax.value) for each in topics_of(self._handle.definition)[0]])

    async def _hold(self, filters: tuple[tuple[str, str], ...]) -> None:
        """Have every broker hold what is published to the queue, and send what it has for it. Raises MoveFailed."""
        own = QueueHold(self.queue, self._broker, self.to, filters, self.attempt)
        await self._holds.begin(own)
        own.is_answered = True
        asked = [link.ask(HOLD, self.queue, self.to, filters, self.attempt) for link in self._links.values()]
        failure: MoveFailed | None = None
        for answer in asked:
            try:
                await answer
            except MoveFailed as failed:
                failure = failed
        if failure is not None:
            raise failure

    async def _empty(self) -> None:
        """Hand over the rest, until the new home has stored everything. Raises MoveFailed."""
        deadline_ms = self._runtime.clock.now_ms() + SWITCH_MS_MAX
        while self.left_count > 0:
            await self._hand_over(deadline_ms)
            self._check(deadline_ms, "messages are still in use")
            await self._runtime.sleep(0)
        await passed(self._link(), self._runtime, deadline_ms)

    async def _release_all(self) -> None:
        """End all holds: nothing has changed. Whom this does not reach asks by itself."""
        self.is_switching = False
        self.attempt = 0
        for link in self._links.values():
            if not link.lack():
                link.ask(RELEASE, self.queue, "").then(lambda _: None)
        own = self._holds.by_queue.get(self.queue)
        if own is not None:
            await self._holds.end(own)

    async def _is_decided(self) -> bool:
        """Ask until it is known who the home is. Return whether it is the new one; else this broker goes on."""
        while True:
            try:
                state = await self._ask(STATE)
                if state == IS_UNDECIDED:
                    self.wait.fails(f"broker {self.to!r} has not said yet whether it is the home")
            except MoveFailed as failure:
                self.wait.fails(f"it is not known yet whether broker {self.to!r} is the home: {failure}")
                state = IS_UNDECIDED
            if state == IS_HOME:
                await self._end()
                return True
            if state in (IS_RECEIVING, HAS_NONE) or self._is_without_new_home:
                await self._set_until_stored(self._stage(MOVING))
                await self._release_all()
                return False
            await self._runtime.sleep(10 * LOOK_AGAIN_MS)

    def _stage(self, stage: str) -> QueueMove:
        move = self._handle.move
        return QueueMove(stage, self.to, self.begun_ms, "" if move is None else move.session)

    async def _set_until_stored(self, move: QueueMove) -> None:
        while not await self._is_set(move):
            await self._runtime.sleep(AGAIN_MS)

    async def _is_set(self, move: QueueMove) -> bool:
        try:
            await self._set(move)
        except StoreRefused as refusal:
            self.wait.fails(str(refusal))
            return False
        return True

    async def _set(self, move: QueueMove | None) -> None:
        self._handle = await self._queues.ask(SetQueueMove(self.queue, move))

    async def _end(self) -> None:
        """The new home is the home: end the queue here."""
        moved = MovedQueue(self.queue, self.to, self._filters())
        session = self._session
        await self._queues.ask(EndMovedQueue(moved, () if session is None else session.keys))
        if session is not None:
            await self._sessions.ask(EndHeldSession(client_of(self.queue), has_rows=False))
        self.moved = moved


async def tell_home(
    moved: MovedQueue,
    cell: ActorCell,
    *,
    queues: ActorCell,
    holds: QueueHolds,
    links: dict[str, MoveRequests],
    kept: dict[str, KeptLink],
    is_expected: Callable[[str], bool],
    has_told: HasTold,
) -> None:
    """Have every broker end its hold of a queue that was moved away; return when all have.

    `is_expected` returns whether a broker of `kept` has a link, or will have one soon: this broker may be starting.
    """
    runtime = cell.runtime
    left = dict.fromkeys([*links, *kept])
    own = holds.by_queue.get(moved.name)
    if own is not None:
        holds.end_at(own, has_told)
    while left:
        asked = {}
        for name in list(left):
            link = links.get(name)
            if link is None:
                if not is_expected(name):  # the link was removed
                    del left[name]
            elif not link.lack():
                asked[name] = link.ask(RELEASE, moved.name, moved.broker)
        for name, answer in asked.items():
            try:
                await answer
            except MoveFailed as failure:
                log.info("move of queue %s to broker %s: %s", moved.name, moved.broker, failure)
            else:
                del left[name]
        if left:
            await runtime.sleep(10 * LOOK_AGAIN_MS)
    if own is not None:
        await holds.end_at(own, has_told)
    queues.inbox.post(ForgetMovedQueue(moved.name))
