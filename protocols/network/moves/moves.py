"""All moves of one message VPN at this broker: those that it drives, those of queues that come, and its holds."""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple, final

from sluicegate.actors.messages.data import StoreRefused
from sluicegate.actors.messages.directory import (
    NAMED,
    SESSION,
    SUBSCRIPTION,
    CheckSubscriptionMove,
    DropReceivedQueue,
    FindQueue,
    ListMoves,
    LocalQueue,
    Moves,
    ReceiveQueue,
    SetQueueMove,
    UpdateRefused,
)
from sluicegate.actors.messages.named_publishers import (
    AdoptPublisher,
    DropPublisherCopy,
    EndHeldPublisher,
    FindPublisherCopy,
    FreePublisher,
    HoldPublisher,
    NotePublisherCopy,
)
from sluicegate.actors.messages.router import TakeSelectors
from sluicegate.actors.messages.sessions import (
    AdoptSession,
    EndHeldSession,
    FreeSession,
    HeldSession,
    HoldSession,
    RowsOfSession,
    SessionRow,
)
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.actors.runtime.events import Events
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.actors.runtime.tasks import run
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.network.queue_names import is_told
from sluicegate.messaging.queues.definition import definition_from_dict, is_named
from sluicegate.messaging.queues.moves import (
    COMMITTING,
    MOVING,
    SESSION_QUEUE_PREFIX,
    MovedQueue,
    QueueMove,
    is_of_client,
)
from sluicegate.messaging.routing.routes import TopicSpace
from sluicegate.protocols.network.guaranteed.kept import KeptLink
from sluicegate.protocols.network.guaranteed.queue_hold import QueueHold
from sluicegate.protocols.network.moves import mover as words
from sluicegate.protocols.network.moves.holds import DRAIN_MS_MAX, QueueHolds, passed
from sluicegate.protocols.network.moves.mover import Mover, tell_home
from sluicegate.protocols.network.moves.requests import MoveFailed, MoveRequests
from sluicegate.protocols.network.queues.notes import FlowNote
from sluicegate.protocols.network.queues.questions import Answerer

SELECTORS_PLACE: Final = 3  # of HOME; earlier releases leave it out
ASK_AGAIN_MS: Final = 2_000  # about a hold whose end nobody has told

log = logging.getLogger("sluicegate.network")


class SubscriptionStays(Exception):
    """A durable subscription cannot move, and those of its container stay with it; the text says why."""

    def __init__(self, queue: str, text: str) -> None:
        super().__init__(text)
        self.queue: Final = queue


class MoveOverview(NamedTuple):
    """How far the move of a queue away from this broker is."""

    queue: str
    to: str
    begun_ms: int  # wall clock
    moved_count: int  # messages
    left_count: int
    is_switching: bool  # publishers wait
    waits_for: str


@final
class VpnMoves:
    """The moves of one message VPN."""

    def __init__(
        self,
        queues: ActorCell,
        cursors: ActorCell,
        *,
        broker: str,
        space: TopicSpace,
        spool: Address,
        kept: dict[str, KeptLink],
        router: ActorCell,
        sessions: ActorCell,
        publishers: ActorCell,
        siblings: frozenset[str],
        answerer: Answerer,
        events: Events,
    ) -> None:
        """`sessions` is the directory of MQTT sessions, and `publishers` that of named publishers, which move to
        `siblings` only: brokers of this machine."""
        self.links: dict[str, MoveRequests] = {}  # by neighbor
        self.movers: dict[str, Mover] = {}  # by queue
        self.moved: dict[str, MovedQueue] = {}  # away from here, while not every broker knows of it
        self.received_count = 0  # queues that have come here
        self.sent_count = 0  # queues that were moved away
        self.cancelled_count = 0  # moves that were ended by operators
        self._over_count = 0  # messages that were handed over, of moves that are over
        self._cell = queues
        self._cursors = cursors
        self._broker = broker
        self._space = space
        self._kept = kept
        self._router = router
        self._sessions = sessions
        self._publishers = publishers
        self._siblings = siblings
        self._answerer = answerer
        self._events = events
        self._has_resumed = False  # what the store has of moves is known here
        self._becoming: dict[str, None] = {}  # queues that are about to have their home here
        self.holds: Final = QueueHolds(queues.runtime, broker=broker, space=space, spool=spool, kept=kept)
        run(queues.runtime, self._resume())

    @property
    def handed_over_count(self) -> int:
        """Messages that were handed over to the new homes of their queues."""
        return self._over_count + sum([each.moved_count for each in self.movers.values()])

    @property
    def long_waits_count(self) -> int:
        """Queues that are moved away, and have waited long for one and the same thing."""
        return sum([each.wait.is_long for each in self.movers.values()])

    async def _resume(self) -> None:
        """Go on with what the store has."""
        found: Moves = await self._cell.ask(ListMoves())
        for moved in found.moved:
            self._tell(moved)
        for handle in found.queues:
            move = handle.move
            assert move is not None, "it moves"
            if move.stage in (MOVING, COMMITTING):
                self._start(handle, move.broker)
        self._has_resumed = True
        for hold in self.holds.of(self._broker):
            if hold.queue not in self.moved and not self._is_undecided(hold.queue, found.queues):
                self.holds.end(hold)

    def _is_undecided(self, queue: str, handles: list[LocalQueue]) -> bool:
        return any(each.name == queue and each.move is not None and each.move.stage == COMMITTING for each in handles)

    # --- links ---

    def link(self, cell: ActorCell, neighbor: str, has_told: Callable[[], bool]) -> MoveRequests:
        """Make the requests of a link. `has_told`: all that the neighbor wants is in force here."""
        requests = self.links[neighbor] = MoveRequests(cell, neighbor, self._carry_out, has_told)
        return requests

    def forget(self, neighbor: str) -> None:
        """Forget a neighbor for good: who has the queues whose topics are held for it is not asked any more."""
        for hold in list(self.holds.by_queue.values()):
            if neighbor in (hold.old, hold.new) and self._broker != hold.new:
                self.holds.end(hold)

    def link_ends(self, neighbor: str) -> None:
        """Forget a link that was removed. Who is the home of what it holds cannot be asked any more."""
        self.links.pop(neighbor, None)

    def connected(self, neighbor: str) -> None:
        """Ask a neighbor about moves of its queues that it has not told the end of."""
        runtime = self._cell.runtime
        for hold in self.holds.of(neighbor):
            if hold.is_answered:
                run(runtime, self._ask_held(hold))
        run(runtime, self._ask_moving(neighbor))

    async def _ask_held(self, hold: QueueHold) -> None:
        """Ask the old home about a hold until it is over, or the connection is."""
        while self.holds.by_queue.get(hold.queue) is hold and hold.released is None:
            link = self.links.get(hold.old)
            if link is None or link.lack():
                return  # it is asked again on the next connection
            try:
                answer = await link.ask(words.ASK_HELD, hold.queue, hold.attempt)
            except MoveFailed:
                return
            if self.holds.by_queue.get(hold.queue) is not hold:
                return
            if answer == hold.new:
                self.holds.end_at(hold, self._has_told)
            elif answer == words.IS_HOME:
                self.holds.end(hold)
            await self._cell.runtime.sleep(ASK_AGAIN_MS)

    async def _ask_moving(self, neighbor: str) -> None:
        """Drop queues that are not to come any more."""
        found: Moves = await self._cell.ask(ListMoves())
        for handle in found.queues:
            if handle.move is None or not handle.move.is_from(neighbor):
                continue
            try:
                if await self.links[neighbor].ask(words.ASK_MOVING, handle.name) == words.HAS_NONE:
                    await self._cell.ask(DropReceivedQueue(handle.name, neighbor))
            except (MoveFailed, KeyError, UpdateRefused) as failure:
                log.info("queue %s, which was to be moved here from broker %s: %s", handle.name, neighbor, failure)

    def _has_told(self, neighbor: str) -> bool:
        if neighbor == self._broker:
            return True
        link = self.links.get(neighbor)
        return link is not None and link.has_told()

    # --- what operators want ---

    async def begin(self, queue: str, to: str, *, drops_kept: bool = False) -> None:
        """Begin to move a queue to another broker. Raises UpdateRefused: it cannot move there, or not now.

        `drops_kept`: what it keeps for readers, and their durable cursors, are deleted.
        """
        if queue in self.movers or queue in self.moved:
            raise UpdateRefused(f"queue {queue!r} is being moved already")
        if is_named(queue) and not is_told(queue) and not self._siblings.issuperset(self.links):
            raise UpdateRefused(f"only brokers of this machine know queue {queue!r}, and there are links to others")
        if to == self._broker:
            raise UpdateRefused(f"queue {queue!r} is at broker {to!r} already")
        await self._begin(queue, self._move_to(to), self._link_to(to), drops_kept=drops_kept)

    def _link_to(self, to: str) -> MoveRequests:
        """Return the link to the broker that is to have something. Raises UpdateRefused."""
        link = self.links.get(to)
        if link is None:
            known = ", ".join(sorted(self.links)) or "no broker"
            raise UpdateRefused(f"there is no link to broker {to!r} in this message VPN; there are links to {known}")
        for each in self.links.values():
            lack = each.lack()
            if lack and (each is link or each.is_up):
                raise UpdateRefused(lack)
        return link

    def _move_to(self, to: str, session: str = "") -> QueueMove:
        return QueueMove(MOVING, to, self._cell.runtime.clock.wall_ms(), session)

    async def _begin(
        self,
        queue: str,
        move: QueueMove,
        link: MoveRequests,
        *,
        drops_kept: bool = False,
        of_container: bool = False,
    ) -> None:
        begins = SetQueueMove(queue, move, drops_kept=drops_kept, of_container=of_container)
        handle: LocalQueue = await self._cell.ask(begins)
        refusal: MoveFailed | None = None
        try:
            await link.ask(words.RECEIVE, queue, handle.definition.to_dict(), handle.kind)
        except MoveFailed as failure:
            refusal = failure
        if refusal is not None:
            await self._cell.ask(SetQueueMove(queue, None))
            raise UpdateRefused(f"broker {move.broker!r} does not take queue {queue!r}: {refusal}")
        self._start(handle, move.broker)

    async def begin_session(self, client_id: str, to: str) -> None:
        """Begin to move the MQTT session of a client to another broker of this machine; call it until it is gone.

        Its client is disconnected, and is let in here no more. Raises UpdateRefused: it cannot move, or not now.
        """
        link = self._link_to(to)
        held: HeldSession | None = await self._sessions.ask(HoldSession(client_id))
        if held is None:
            return
        if held.queue is None:
            try:
                await link.ask(words.ADOPT, SESSION_QUEUE_PREFIX + client_id, held.record)
            except MoveFailed as failure:  # it stays held: it may be there
                raise UpdateRefused(f"broker {to!r} has not taken the session of {client_id!r}: {failure}") from None
            await self._sessions.ask(EndHeldSession(client_id, has_rows=True))
            return
        try:
            if held.obstacle:
                raise UpdateRefused(f"the session of {client_id!r} cannot move now: {held.obstacle}")
            await self._begin(held.queue.name, self._move_to(to, held.record), link)
        except (UpdateRefused, StoreRefused):
            self._sessions.inbox.post(FreeSession(client_id))
            raise

    async def begin_subscriptions(self, queues: Sequence[str], to: str, *, before: Callable[[], None]) -> None:
        """Begin to move durable subscriptions of AMQP, by their queues, to another broker of this machine.

        All do, or none. `before` is called once nothing is in the way of any: from then on their clients are not
        served. Raises SubscriptionStays for the one that is in the way of all, and UpdateRefused and StoreRefused: not
        now.
        """
        link = self._link_to(to)
        for each in self.links.values():  # every broker has to take part in the end, and clients would wait for that
            if lack := each.lack_for_clients():
                raise UpdateRefused(lack)
        for queue in queues:
            try:
                await self._cell.ask(CheckSubscriptionMove(queue))
            except UpdateRefused as refusal:
                raise SubscriptionStays(queue, str(refusal)) from None
        stays = await self._received_by(link, queues)
        if stays is not None:
            raise stays
        before()
        for place, queue in enumerate(queues):
            failure: UpdateRefused | StoreRefused | None = None
            try:
                await self._begin(queue, self._move_to(to), link, of_container=True)
            except (UpdateRefused, StoreRefused) as refused:
                failure = refused
            if failure is not None:
                self._drop_received(link, queues[place:])
                raise failure

    @staticmethod
    def _drop_received(link: MoveRequests, queues: Sequence[str]) -> None:
        """Tell another broker that queues do not come. If that is lost, it asks on the next connection."""
        for queue in queues:
            link.ask(words.DROP, queue).then(lambda _: None)

    async def _received_by(self, link: MoveRequests, queues: Sequence[str]) -> SubscriptionStays | None:
        """Have another broker make queues that are to come, where nobody reaches them yet: all, or none."""
        for place, queue in enumerate(queues):
            handle: LocalQueue | None = await self._cell.ask(FindQueue(queue))
            failure: MoveFailed | None = None
            try:
                if handle is not None:
                    await link.ask(words.RECEIVE, queue, handle.definition.to_dict(), handle.kind)
            except MoveFailed as failed:
                failure = failed
            if failure is not None:
                self._drop_received(link, queues[:place])
                return SubscriptionStays(queue, f"broker {link.neighbor!r} does not take queue {queue!r}: {failure}")
        return None

    async def move_publisher(self, name: str, to: str) -> None:
        """Move a named publisher to another broker of this machine. Its client is refused for a moment.

        It waits until all that it has published is where it goes: what it publishes at the new home overtakes nothing.
        Raises UpdateRefused: it cannot move, or not now; then it is used here as before.
        """
        link = self._link_to(to)
        for neighbor, kept in self._kept.items():  # before: its client would be refused for nothing
            waits = kept.queue is not None and int(kept.queue.target.gate.usage_count) > 0
            if waits and (neighbor not in self.links or self.links[neighbor].lack()):
                raise UpdateRefused(f"messages wait for broker {neighbor!r}, which is away")
        failure: Exception | None = None
        try:
            await self._all_passed()  # likewise: a backlog may take longer than it can be refused
            await self._drop_publisher_copy(name, to)
            record: str | None = await self._publishers.ask(HoldPublisher(name))
            if record is None:
                return
            await self._all_passed()
            await self._publishers.ask(NotePublisherCopy(name, to))
            await link.ask(words.ADOPT_PUBLISHER, name, record)
        except Exception as failed:  # if it is there, nobody finds it there before this broker has ended it
            failure = failed
        if failure is not None:
            self._publishers.inbox.post(FreePublisher(name))
            if isinstance(failure, MoveFailed | StoreRefused):
                raise UpdateRefused(f"publisher {name!r} has not moved to broker {to!r}: {failure}")
            raise failure
        await self._publishers.ask(EndHeldPublisher(name))

    async def _drop_publisher_copy(self, name: str, to: str) -> None:
        """Have a copy deleted that an earlier try has left at another broker: so there is one at most.

        Raises UpdateRefused.
        """
        at: str = await self._publishers.ask(FindPublisherCopy(name))
        if at in ("", to) or at not in self._siblings:  # a broker that has ended has nothing
            return
        failure: MoveFailed | None = None
        try:
            await self._link_to(at).ask(words.DROP_PUBLISHER, name)
        except MoveFailed as failed:
            failure = failed
        if failure is not None:
            raise UpdateRefused(f"broker {at!r} has not deleted its copy of publisher {name!r}: {failure}")

    async def _all_passed(self) -> None:
        """Wait until everything that is in link queues now is stored at the neighbors. Raises MoveFailed."""
        runtime = self._cell.runtime
        deadline_ms = runtime.clock.now_ms() + DRAIN_MS_MAX
        for kept in list(self._kept.values()):
            if kept.queue is not None:
                await passed(kept, runtime, deadline_ms)

    async def cancel(self, queue: str) -> None:
        """End the move of a queue before anything of it is at its new home. Raises UpdateRefused."""
        mover = self.movers.get(queue)
        if mover is None:
            raise UpdateRefused(f"queue {queue!r} is not being moved away from here")
        await mover.cancel()

    async def end_without(self, queue: str, neighbor: str) -> None:
        """End a move whose other broker does not come back: this one is the home, with what it has of the queue.

        What only the other one has is lost. Raises UpdateRefused: it is no such move, or the other one is still known.
        """
        if neighbor in self.links or neighbor in self._kept:
            raise UpdateRefused(
                f"broker {neighbor!r} is known here: if it does not come back, delete the link to it, and forget it:"
                f" sluicegate link forget {neighbor} --force"
            )
        mover = self.movers.get(queue)
        handle: LocalQueue | None = await self._cell.ask(FindQueue(queue))
        if mover is not None and mover.to == neighbor:
            await mover.end_without_new_home()
        elif handle is not None and handle.move is not None and handle.move.is_from(neighbor):
            await self._cell.ask(SetQueueMove(queue, None))
            hold = self.holds.by_queue.get(queue)
            if hold is not None and hold.old == neighbor:
                await self.holds.end(hold)
        else:
            raise UpdateRefused(f"queue {queue!r} is being moved neither to broker {neighbor!r} nor from there")

    def overviews(self) -> list[MoveOverview]:
        """Return how far each move away from here is."""
        return [self._overview(name, each) for name, each in sorted(self.movers.items())]

    def overview(self, queue: str) -> MoveOverview | None:
        """Return how far the move of a queue away from here is; None: it is not being moved."""
        mover = self.movers.get(queue)
        return None if mover is None else self._overview(queue, mover)

    @staticmethod
    def _overview(queue: str, mover: Mover) -> MoveOverview:
        return MoveOverview(
            queue, mover.to, mover.begun_ms, mover.moved_count, mover.left_count, mover.is_switching, mover.wait.reason
        )

    # --- moves away from here ---

    def _start(self, handle: LocalQueue, to: str) -> None:
        mover = self.movers[handle.name] = Mover(
            self._cell,
            handle,
            to,
            broker=self._broker,
            queues=self._cell,
            router=self._router,
            sessions=self._sessions,
            cursors=self._cursors,
            holds=self.holds,
            links=self.links,
            kept=self._kept,
            events=self._events,
        )
        mover.start().then(partial(self._over, mover))

    def _over(self, mover: Mover, _: LoopFuture[None]) -> None:
        if mover.moved is not None:  # in the same step: whoever asks meanwhile must not hear that it is still here
            self.sent_count += 1
            self._tell(mover.moved)
        elif mover.is_cancelled:
            self.cancelled_count += 1
        self.movers.pop(mover.queue, None)
        self._over_count += mover.moved_count

    def _tell(self, moved: MovedQueue) -> None:
        if moved.name not in self.moved:
            self.moved[moved.name] = moved
            told = tell_home(
                moved,
                self._cell,
                queues=self._cell,
                holds=self.holds,
                links=self.links,
                kept=self._kept,
                is_expected=self._is_expected,
                has_told=self._has_told,
            )
            run(self._cell.runtime, told).then(partial(self._told, moved.name))

    def _is_expected(self, neighbor: str) -> bool:
        """Return whether a broker has a link, or will have one as far as is known: links begin after this."""
        expected = [output.neighbor for output in self._space.link_queues]
        return neighbor in self._kept and (not expected or neighbor in expected)

    def _told(self, queue: str, done: LoopFuture[None]) -> None:
        self.moved.pop(queue, None)
        if done.error() is not None:  # the node stops; the next start tries again
            log.info("not every broker was told where queue %s is: %r", queue, done.error())

    # --- what other brokers ask for ---

    async def _carry_out(self, neighbor: str, note: FlowNote) -> str:
        what, queue = note.text(0), note.text(1)
        if what == words.HOLD:
            return await self._hold(neighbor, note)
        if what == words.RELEASE:
            return await self._release(neighbor, queue, note.text(2))
        if what == words.ASK_HELD:
            return self._home_of(queue, note.number(2))
        if what == words.ASK_MOVING:
            return await self._is_moving(neighbor, queue)
        if what == words.RECEIVE:
            return await self._receive(neighbor, note)
        if what == words.STATE:
            return await self._state(neighbor, queue)
        if what == words.HOME:
            return await self._become_home(neighbor, note)
        if what == words.ADOPT:
            return await self._adopt(neighbor, note.text(2))
        if what == words.ADOPT_PUBLISHER:
            self._check_sibling(neighbor)
            await self._publishers.ask(AdoptPublisher(queue, note.text(2)))
            return ""
        if what == words.DROP_PUBLISHER:
            self._check_sibling(neighbor)
            await self._publishers.ask(DropPublisherCopy(queue))
            return ""
        if what == words.DROP:
            await self._cell.ask(DropReceivedQueue(queue, neighbor))
            return ""
        raise ValueError(f"this broker does not know what {what!r} of a queue's move is")

    async def _receive(self, neighbor: str, note: FlowNote) -> str:
        """Make a queue that is to come, or find it."""
        queue, kind = note.text(1), note.text(3)
        is_clients = kind in (SESSION, SUBSCRIPTION)
        if is_clients:
            self._check_sibling(neighbor)
        definition = definition_from_dict(note.values[2], reserved_name=is_clients)
        if definition.config.name != queue:
            raise ValueError(f"queue {queue!r} is described as {definition.config.name!r}")
        if not self._answerer.allows(neighbor) and await self._cell.ask(FindQueue(queue)) is None:
            setting = f"links.{neighbor}.allow_operator_actions is off there"
            raise MoveFailed(f"operators of broker {neighbor!r} may not move queues to it: {setting}")
        handle: LocalQueue = await self._cell.ask(ReceiveQueue(definition, neighbor, kind if is_clients else NAMED))
        return str(handle.target.gate.usage_count)

    def _check_sibling(self, neighbor: str) -> None:
        """Raise MoveFailed for a broker of another machine: what clients have by their names moves within one."""
        if neighbor not in self._siblings:
            raise MoveFailed(f"broker {neighbor!r} is of another machine, and what clients have moves within one")

    async def _hold(self, neighbor: str, note: FlowNote) -> str:
        queue = note.text(1)
        # The queues of clients are told to nobody: there, it has to be known what the neighbor wants.
        if not (self._has_told(neighbor) if is_of_client(queue) else neighbor in self._homes(queue)):
            text = f"broker {self._broker!r} does not know queue {note.text(1)!r} of broker {neighbor!r}"
            raise MoveFailed(f"{text}: its link keeps it back, or has just begun")
        filters = tuple([(str(text), str(syntax)) for text, syntax in note.values[3]])
        hold = QueueHold(note.text(1), neighbor, note.text(2), filters, note.number(4))
        await self.holds.begin(hold)
        await self.holds.drain(hold)
        run(self._cell.runtime, self._watch(hold))
        return ""

    def _homes(self, queue: str) -> list[str]:
        """Return the neighbors that have told of a queue of this name."""
        neighbors = self._space.neighbors
        return [] if neighbors is None else [each.output.neighbor for each in neighbors.queues.homes(queue)]

    async def _watch(self, hold: QueueHold) -> None:
        await self._cell.runtime.sleep(ASK_AGAIN_MS)
        await self._ask_held(hold)

    async def _release(self, neighbor: str, queue: str, home: str) -> str:
        hold = self.holds.by_queue.get(queue)
        if hold is not None and hold.old == neighbor:
            if home == hold.new:
                await self.holds.end_at(hold, self._has_told)
            else:
                await self.holds.end(hold)
        return ""

    def _home_of(self, queue: str, attempt: int) -> str:
        """Return who is the home of a queue that was this broker's; for brokers that hold its topics."""
        if not self._has_resumed:
            return words.IS_UNDECIDED
        moved = self.moved.get(queue)
        if moved is not None:
            return moved.broker
        mover = self.movers.get(queue)
        if mover is not None and mover.is_switching and mover.attempt in (0, attempt):
            return words.IS_UNDECIDED
        return words.IS_HOME

    async def _is_moving(self, neighbor: str, queue: str) -> str:
        found: Moves = await self._cell.ask(ListMoves())
        ways = [(each.name, each.move.broker) for each in found.queues if each.move is not None]
        ways += [(each.name, each.broker) for each in found.moved]
        return words.IS_RECEIVING if (queue, neighbor) in ways else words.HAS_NONE

    async def _state(self, neighbor: str, queue: str) -> str:
        handle: LocalQueue | None = await self._cell.ask(FindQueue(queue))
        if queue in self._becoming:
            return words.IS_UNDECIDED
        if handle is None:
            return words.HAS_NONE
        return words.IS_RECEIVING if handle.move is not None and handle.move.is_from(neighbor) else words.IS_HOME

    async def _adopt(self, neighbor: str, record: str) -> str:
        """Have a session that comes without a queue."""
        self._check_sibling(neighbor)
        rows: list[SessionRow] = await self._sessions.ask(RowsOfSession(record, None))
        await self._sessions.ask(AdoptSession(rows, None, are_stored=False))
        return ""

    async def _become_home(self, neighbor: str, note: FlowNote) -> str:
        queue, record = note.text(1), note.text(2)
        handle: LocalQueue | None = await self._cell.ask(FindQueue(queue))
        if handle is None:
            raise MoveFailed(f"broker {self._broker!r} has no queue {queue!r}")
        if queue in self._becoming:
            raise MoveFailed(f"broker {self._broker!r} is about to be the home of {queue!r}")
        if handle.move is not None and handle.move.is_from(neighbor):
            self._becoming[queue] = None
            try:
                rows: list[SessionRow] = []
                if handle.kind == SESSION:
                    rows = await self._sessions.ask(RowsOfSession(record, handle))
                if len(note.values) > SELECTORS_PLACE and note.values[SELECTORS_PLACE]:
                    await self._router.ask(TakeSelectors(handle.target, _selectors_in(note)))
                handle = await self._cell.ask(SetQueueMove(queue, None, rows))
                if rows:
                    await self._sessions.ask(AdoptSession(rows, handle, are_stored=True))
            finally:
                self._becoming.pop(queue, None)
            self.received_count += 1
        return ""


def _selectors_in(note: FlowNote) -> list[tuple[str, list[str], int]]:
    """Return the durable selectors of HOME. Raises ValueError."""
    rows = note.values[SELECTORS_PLACE]
    if not isinstance(rows, list):
        raise ValueError("the durable selectors of a queue that moves are no list")
    try:
        return [(str(subscriber), [str(each) for each in texts], int(seen_ms)) for subscriber, texts, seen_ms in rows]
    except TypeError as error:
        raise ValueError(f"the durable selectors of a queue that moves: {error}") from None
