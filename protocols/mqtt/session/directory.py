"""The directory of MQTT sessions: the session of each client, its connection, and its timers while disconnected.

The directory carries out takeover, owns the sessions of disconnected clients, and runs their timers: will delay and
session expiry.
"""

from typing import Any, final

from sluicegate.actors.messages.data import Confirmed, PublishFailed, SessionRows, StoredAnswer
from sluicegate.actors.messages.directory import SHARED, DeleteQueue, ListQueues, LocalQueue, UpdateRefused
from sluicegate.actors.messages.partitions import FoundSequences, LookUpSequences
from sluicegate.actors.messages.queues import UnbindFlow
from sluicegate.actors.messages.router import (
    AwaitNeighbors,
    LeaveGroup,
    RemoveSubscription,
)
from sluicegate.actors.messages.sessions import (
    AdoptSession,
    EndHeldSession,
    FreeSession,
    HeldSession,
    HoldSession,
    RowsOfSession,
    SessionRow,
)
from sluicegate.actors.publishing.publisher import Publisher
from sluicegate.actors.runtime.asks import LoopFuture, ask_unless_gone, gather
from sluicegate.actors.runtime.runtime import ActorCell, Behaviour
from sluicegate.actors.runtime.tasks import run
from sluicegate.messaging.clients.rights import BROKER_RETIRED, SESSION_OF_ANOTHER, ClientDenied
from sluicegate.messaging.clients.roster import ClientRoster
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.publication import Publication
from sluicegate.messaging.network.clients import ClientSeen, ConnectedElsewhere, NetworkClients, NoteConnected
from sluicegate.messaging.queues.definition import ANONYMOUS
from sluicegate.messaging.routing.destinations import Subscriber
from sluicegate.messaging.routing.routes import TopicSpace
from sluicegate.messaging.selectors.selector import Selectors
from sluicegate.messaging.topics.syntax import Syntax, parse_shared
from sluicegate.protocols.mqtt.codec.events import Will
from sluicegate.protocols.mqtt.codec.reason_codes import ADMINISTRATIVE_ACTION
from sluicegate.protocols.mqtt.session.messages import (
    ClaimSession,
    EndSession,
    FindSession,
    RestoreSessions,
    SessionClaimed,
    SessionReleased,
    TakeOver,
)
from sluicegate.protocols.mqtt.session.moved import check_is_decided, check_is_own, obstacle_to, record_of, rows_in
from sluicegate.protocols.mqtt.session.packet_ids import NOT_BOUND
from sluicegate.protocols.mqtt.session.quota import SessionQuota
from sluicegate.protocols.mqtt.session.restore import subscribe_again
from sluicegate.protocols.mqtt.session.session import (
    NEVER_EXPIRES,
    STATE_ROW,
    Session,
    ids_key,
)
from sluicegate.protocols.mqtt.session.stored import (
    StoredSession,
    received_by_client,
    rows_left_behind,
    subscriptions_by_client,
)
from sluicegate.protocols.mqtt.session.will import will_batch, will_from_row, will_to_row

TIMER_MS_MAX = 86_400_000  # event loops do not take timers of years: a longer one is set again each day
SEQUENCES_END = 1 << 62  # above every sequence
STORE_AGAIN_MS = 1000  # after the store has refused how the session of a client stands that is away


@final
class SessionDirectory(Behaviour):
    """All MQTT sessions of a message VPN."""

    def __init__(
        self,
        cell: ActorCell,
        *,
        space: TopicSpace,
        router: ActorCell,
        queues: ActorCell,
        spool: Address,
        clients: ClientRoster,
        selectors: Selectors,
        network: NetworkClients,
        is_retired: bool = False,
    ) -> None:
        """`is_retired`: there are to be no sessions here but those that there are."""
        self._cell = cell
        self._runtime = cell.runtime
        self._router = router
        self._queues = queues
        self._spool = spool
        self._clients = clients
        self._selectors = selectors
        self._network = network
        self._is_retired = is_retired
        network.directory = cell.inbox
        self._row_prefix = space.row_prefix
        self._sessions: dict[str, Session] = {}
        self.quota = SessionQuota(clients)
        self.count_max = 0  # the most sessions there ever were
        self.expired_count = 0  # sessions that ended because their client did not come back in time
        self._held: dict[str, None] = {}  # clients whose sessions move to another broker
        self._claims: dict[str, LoopFuture[None]] = {}  # the claim under way for a client, others wait behind it
        self._ended: dict[str, LoopFuture[None]] = {}  # clients whose last session the store has yet to forget
        self._deleting: dict[int, LoopFuture[None]] = {}  # token -> rows that are being deleted
        self._wills: dict[int, tuple[Session, Publication]] = {}  # by token: on their way to the store
        self._storing: dict[int, Session] = {}  # by token: whose rows are on their way to the store
        self._last_token = 0
        self._publisher = Publisher(space=space, spool=spool, address=cell.inbox, rng=self._runtime.rng)

    @property
    def count(self) -> int:
        """How many sessions there are, with a connection or without."""
        return len(self._sessions)

    @property
    def connected_count(self) -> int:
        """How many sessions have a connection. It looks at all of them."""
        return sum([1 for each in self._sessions.values() if each.connection is not None])

    def client_ids(self) -> list[str]:
        """Return whose sessions there are."""
        return list(self._sessions)

    def sessions(self) -> list[Session]:
        """Return the sessions, with a connection or without, to look at and not to change."""
        return list(self._sessions.values())

    def session_of(self, client_id: str) -> Session | None:
        """Return the session of a client, to look at and not to change."""
        return self._sessions.get(client_id)

    def keeps(self, client_id: str, user: str) -> bool:
        """Return whether there is a session that outlives its connection, and that a client of this user may have."""
        session = self._sessions.get(client_id)
        if session is None or client_id in self._held:
            return False
        return session.expiry_s > 0 and session.user in (ANONYMOUS, user)

    def receive(self, message: Any) -> Any:
        """Handle a claim, or a session that is returned."""
        if isinstance(message, ClaimSession):
            return self._claim(message)
        if isinstance(message, FindSession):
            return message.client_id in self._sessions
        if isinstance(message, RestoreSessions):
            return run(self._runtime, self._restore(message))
        if isinstance(message, EndSession):
            return run(self._runtime, self._end_asked_for(message))
        if isinstance(message, HoldSession):
            return run(self._runtime, self._hold(message.client_id))
        if isinstance(message, RowsOfSession):
            return run(self._runtime, self._rows_of(message))
        if isinstance(message, AdoptSession):
            return run(self._runtime, self._adopt(message))
        if isinstance(message, EndHeldSession):
            return self._end_held(message)
        if isinstance(message, SessionReleased):
            self._released(message)
        elif isinstance(message, FreeSession):
            self._free(message.client_id)
        elif isinstance(message, Confirmed | PublishFailed):
            self._decided(message)
        elif isinstance(message, ConnectedElsewhere):
            self._connected_elsewhere(message)
        elif isinstance(message, NoteConnected):
            self._network.were_connected(
                [(each.client_id, each.user) for each in self._sessions.values() if each.connection is not None]
            )
        return None

    def turn_ended(self) -> None:
        """Accept inline asks while no claim waits: many clients that connect at once need no turn each."""
        self._cell.inbox.accepts_inline = True

    def stopped(self) -> None:
        """Let no delay end any more: the message VPN is gone, and a session of the same name is another one."""
        for session in self._sessions.values():
            session.stop_timers()

    # --- claims ---

    def _claim(self, message: ClaimSession) -> SessionClaimed | LoopFuture[SessionClaimed]:
        """Bring a session to a connection: at once, unless another of the client has to end before."""
        client_id = message.client_id
        session = self._sessions.get(client_id)
        is_held = session is not None and (session.connection is not None or message.clean_start)
        if is_held or client_id in self._ended or client_id in self._claims:
            return run(self._runtime, self._claim_in_turn(message))
        self._check_user(session, message)
        self._check_room(session, message)
        return self._bring(session, message)

    async def _claim_in_turn(self, message: ClaimSession) -> SessionClaimed:
        """Claims for one client are served one after the other."""
        client_id = message.client_id
        while client_id in self._claims:
            await self._claims[client_id]
        turn: LoopFuture[None] = LoopFuture()
        self._claims[client_id] = turn
        try:
            return await self._serve(message)
        finally:
            del self._claims[client_id]
            turn.set(None)

    async def _serve(self, message: ClaimSession) -> SessionClaimed:
        client_id = message.client_id
        session = self._sessions.get(client_id)
        self._check_user(session, message)
        self._check_room(session, message)
        if session is not None and session.connection is not None:
            await self._take_over(session, is_clean=message.clean_start)
            session = self._sessions.get(client_id)
            self._check_room(session, message)  # others may have come meanwhile
        if session is not None and message.clean_start:
            self._end(session)
            session = None
        if client_id in self._ended:  # the response says there is no session: a crash must not restore it
            place = Session(client_id, expiry_s=message.expiry_s)
            self.quota.count(place, message.will_bytes)  # else others would take it, and there would be too many
            await self._ended[client_id]
            self.quota.forget(place)
        return self._bring(session, message)

    def _check_user(self, session: Session | None, message: ClaimSession) -> None:
        if message.client_id in self._held:
            raise ClientDenied(BROKER_RETIRED, "503 Session Is Moving: another broker of this machine gets it")
        if session is not None and session.user not in (ANONYMOUS, message.user):
            text = f"403 Client Name Already In Use: the session {message.client_id!r} is another user's"
            self._clients.denials.deny(SESSION_OF_ANOTHER, message.client_id, text)
            raise ClientDenied(SESSION_OF_ANOTHER, text)

    def _check_room(self, session: Session | None, message: ClaimSession) -> None:
        self.quota.check(session, message.client_id, is_kept=message.expiry_s > 0, will_bytes=message.will_bytes)

    def _bring(self, session: Session | None, message: ClaimSession) -> SessionClaimed:
        """Give a session that no connection has, or a new one, to the client's connection."""
        present = session is not None
        if session is None:
            if self._is_retired:
                text = "503 Broker Retired: the client has no session here; another broker of this machine is its home"
                raise ClientDenied(BROKER_RETIRED, text)
            session = Session(message.client_id, expiry_s=message.expiry_s, row_prefix=self._row_prefix)
            self._sessions[message.client_id] = session
            self.count_max = max(self.count_max, len(self._sessions))
        else:
            session.stop_timers()
            session.write_no_more()
            session.away = None  # the client is back before its delay was over [3.1.3-9]
            session.expiry_s = message.expiry_s
        session.user = message.user
        session.connection = message.connection
        if self._network.has_links and not message.is_assigned:
            wall_ms = self._runtime.clock.wall_ms()
            self._network.connected(message.client_id, message.user, is_clean=message.clean_start, wall_ms=wall_ms)
        self.quota.count(session, message.will_bytes)
        return SessionClaimed(session, present)

    async def _end_asked_for(self, message: EndSession) -> bool:
        """End a session as its expiry would [3.1.2.11.2], in turn with its claims."""
        client_id = message.client_id
        while client_id in self._claims:
            await self._claims[client_id]
        if client_id in self._held:
            raise UpdateRefused(f"session {client_id!r} moves to another broker of this machine")
        turn: LoopFuture[None] = LoopFuture()
        self._claims[client_id] = turn
        try:
            session = self._sessions.get(client_id)
            if session is not None and session.connection is not None:
                why = TakeOver(ADMINISTRATIVE_ACTION, message.text)
                await self._take_over(session, is_clean=True, why=why)  # its will is due with its end [3.1.3.2.2]
            if self._sessions.get(client_id) is session and session is not None:
                self._end(session)
            if client_id in self._ended:
                await self._ended[client_id]
        finally:
            del self._claims[client_id]
            turn.set(None)
        return session is not None

    async def _take_over(self, session: Session, *, is_clean: bool, why: TakeOver | None = None) -> None:
        """Take a session from the connection that has it, which ends. `is_clean`: the next begins without a session."""
        connection = session.connection
        assert connection is not None
        released: SessionReleased | None = await ask_unless_gone(connection.inbox, why or TakeOver())
        if released is None:  # it was ending by itself: its word is on the way
            if session.connection is connection:
                ended: LoopFuture[None] = LoopFuture()
                session.absence().released = ended
                await ended
            return
        will = released.will
        goes_on = not is_clean and session.expiry_s > 0
        if will is not None and goes_on and will.delay_s > 0:
            released.will = None
        self._park(session, released, is_due=not goes_on)

    # --- clients that connect to neighbor brokers ---

    def _connected_elsewhere(self, message: ConnectedElsewhere) -> None:
        """End the connections here of clients that have a newer one at a neighbor. Their sessions stay."""
        for seen in message.clients:
            session = self._sessions.get(seen.client_id)
            if session is None:
                continue
            if session.user not in (ANONYMOUS, seen.user):
                self._network.other_user_count += 1
            elif session.connection is None:
                self._is_back_elsewhere(session, seen)
            elif self._network.is_newer(seen, message.broker):
                run(self._runtime, self._leave_to(seen, message.broker))
            else:
                here = self._network.known(seen.client_id)
                if here is not None:
                    message.output.client_connected(here)

    def _is_back_elsewhere(self, session: Session, seen: ClientSeen) -> None:
        """Publish no will that waits: its client has connected again before the delay was over [3.1.3-9]."""
        away = session.away
        if away is None or away.will is None or seen.is_clean or not seen.is_news:
            return
        away.will = None
        if away.will_timer is not None:
            away.will_timer.cancel()
            away.will_timer = None
        self._count(session)
        self._store(session)

    async def _leave_to(self, seen: ClientSeen, broker: str) -> None:
        """End the connection of a client, in turn with its claims here."""
        client_id = seen.client_id
        while client_id in self._claims:
            await self._claims[client_id]
        turn: LoopFuture[None] = LoopFuture()
        self._claims[client_id] = turn
        try:
            session = self._sessions.get(client_id)
            if session is not None and session.connection is not None and self._network.is_newer(seen, broker):
                self._network.ended_count += 1
                await self._take_over(session, is_clean=seen.is_clean)
        finally:
            del self._claims[client_id]
            turn.set(None)

    # --- sessions that move to another broker of this machine ---

    async def _hold(self, client_id: str) -> HeldSession | None:
        """End the connection of a session, in turn with its claims, and give it to no other."""
        while client_id in self._claims:
            await self._claims[client_id]
        turn: LoopFuture[None] = LoopFuture()
        self._claims[client_id] = turn
        was_held = client_id in self._held
        self._held[client_id] = None
        try:
            session = self._sessions.get(client_id)
            if session is not None and session.connection is not None:
                check_is_own(session)  # before: its client would be disconnected for nothing
                await self._take_over(session, is_clean=False)
            session = self._sessions.get(client_id)
            if session is None:
                del self._held[client_id]
                return None
            check_is_own(session)
            check_is_decided(session)
        except UpdateRefused:
            if not was_held:
                del self._held[client_id]
            raise
        finally:
            del self._claims[client_id]
            turn.set(None)
        session.stop_timers()
        return await self._described(session)

    async def _described(self, session: Session) -> HeldSession:
        away, queue = session.absence(), session.queue
        unsettled = await _unsettled_in(queue)
        state = session.state_row(will=will_to_row(away.will), closed_wall_ms=away.closed_wall_ms)
        record = record_of(session, state, session.ids_row(), unsettled)
        wanted = [each.topic_filter for each in session.table.by_filter.values() if each.qos > 0]
        filters = tuple([(each.text, each.syntax.value) for each in wanted])
        keys = [key[len(self._row_prefix) :] for key, _ in session.rows_deleted()]
        return HeldSession(record, filters, queue, keys, obstacle_to(session, unsettled))

    def _free(self, client_id: str) -> None:
        session = self._sessions.get(client_id)
        if client_id in self._held and session is not None:
            self._set_timers_of(session, self._runtime.clock.wall_ms())
        self._held.pop(client_id, None)

    def _end_held(self, message: EndHeldSession) -> LoopFuture[None]:
        """Forget a session that is at another broker. Its queue has ended, or it has none."""
        done: LoopFuture[None] = LoopFuture()
        self._held.pop(message.client_id, None)
        session = self._sessions.pop(message.client_id, None)
        if session is None:
            done.set(None)
            return done
        session.stop_timers()
        self.quota.forget(session)
        session.write_no_more()
        if session.subscriber is not None:
            self._unsubscribe(session, session.subscriber)
        if message.has_rows:
            return self._delete(session.rows_deleted())
        done.set(None)
        return done

    async def _rows_of(self, message: RowsOfSession) -> list[SessionRow]:
        queue = message.queue
        partition_id = NOT_BOUND if queue is None else queue.target.partitions[0].partition_id
        return rows_in(message.record, partition_id, await _unsettled_in(queue))

    async def _adopt(self, message: AdoptSession) -> None:
        """Have a session that has come from another broker of this machine."""
        rows = dict(message.rows)
        [(key, state)] = [each for each in message.rows if each[0].startswith(STATE_ROW)]
        client_id = key[len(STATE_ROW) :].decode()
        stored = self._stored_session(client_id, state, rows, received_by_client(rows), subscriptions_by_client(rows))
        known = self._sessions.get(client_id)
        if known is not None:
            away = known.away
            if known.connection is None and away is not None and away.closed_wall_ms == stored.closed_wall_ms:
                return  # it is asked for once more
            raise UpdateRefused(f"client {client_id!r} has a session at broker {self._network.broker!r} already")
        if not message.are_stored:
            answer = StoredAnswer(None)
            written: list[tuple[bytes, bytes | None]] = [(self._row_prefix + key, row) for key, row in message.rows]
            self._spool.post(SessionRows(written, answer, 0))
            await answer.future
        await self._bring_back(stored, message.queue, self._runtime.clock.wall_ms())
        await self._router.ask(AwaitNeighbors())

    # --- sessions without a connection ---

    def _released(self, message: SessionReleased) -> None:
        session = self._sessions.get(message.session.client_id)
        if session is None or session.connection is not message.connection:
            return  # taken over meanwhile
        self._park(session, message)

    def _park(self, session: Session, released: SessionReleased, *, is_due: bool = False) -> None:
        """Keep a session until its client returns or it expires. `is_due`: its will does not wait for that."""
        session.connection = None
        if self._network.has_links:
            self._network.gone(session.client_id)
        will = released.will
        delay_s = 0 if will is None or is_due else min(will.delay_s, session.expiry_s)
        if will is not None and delay_s == 0:
            self._publish_will(session, will)
            will = None
        if session.expiry_s == 0:
            self._end(session)
        else:
            absence = session.absence()
            absence.will = will
            absence.closed_wall_ms = self._runtime.clock.wall_ms()
            self._count(session)
            self._set_timers(session, delay_s * 1000, session.expiry_s * 1000)
            self._store(session)
        away = session.away
        if away is not None and away.released is not None:
            away.released.set(None)
            away.released = None

    def _count(self, session: Session) -> None:
        """Count a session that no connection has."""
        will = session.absence().will
        self.quota.count(session, 0 if will is None else will.usage_bytes())

    def _set_timers(self, session: Session, will_ms: int, expiry_ms: int) -> None:
        away = session.absence()
        if away.will is not None:
            away.will_timer = self._cell.after(will_ms, lambda: self._will_is_due(session))
        if session.expiry_s != NEVER_EXPIRES:
            self._set_expiry_timer(session, expiry_ms)

    def _set_expiry_timer(self, session: Session, left_ms: int) -> None:
        step_ms = min(left_ms, TIMER_MS_MAX)

        def step() -> None:
            if left_ms > step_ms:
                self._set_expiry_timer(session, left_ms - step_ms)
            else:
                self.expired_count += 1
                self._end(session)

        session.absence().expiry_timer = self._cell.after(step_ms, step)

    def _will_is_due(self, session: Session) -> None:
        away = session.absence()
        will, away.will = away.will, None
        away.will_timer = None
        self._count(session)
        if will is not None:
            self._publish_will(session, will)
            self._store(session)

    def _publish_will(self, session: Session, will: Will) -> None:
        batch = will_batch(will, session.client_id, self._runtime.clock.wall_ms())
        token = self._token()
        published = session.absence().will_published = self._publisher.publish(batch, token).publication
        self._publisher.pressures.clear()
        if published is not None:
            self._wills[token] = (session, published)

    def _token(self) -> int:
        self._last_token += 1
        return self._last_token

    def _decided(self, message: Confirmed | PublishFailed) -> None:
        """The store has written or deleted rows, or refused to."""
        if message.token in self._deleting:
            self._deleting.pop(message.token).set(None)
        elif message.token in self._storing:
            session = self._storing.pop(message.token)
            refused = isinstance(message, PublishFailed)
            if refused and session.connection is None and session.absence().store_timer is None:
                # Else a later restart would restore the will of a client that has disconnected normally.
                session.absence().store_timer = self._cell.after(STORE_AGAIN_MS, lambda: self._store_again(session))
        else:
            self._will_decided(message.token)

    def _store_again(self, session: Session) -> None:
        session.absence().store_timer = None
        if self._sessions.get(session.client_id) is session:
            self._store(session)

    def _will_decided(self, token: int) -> None:
        """The store has a will and its session state, or refused both; or has its retained message."""
        found = self._wills.get(token)
        if found is not None and (found[1].confirmed or found[1].refused):
            session, published = self._wills.pop(token)
            if session.away is not None and session.away.will_published is published:
                session.away.will_published = None

    def _end(self, session: Session) -> None:
        """End a session: its subscriptions, its queue, its rows. A will that is still due is due now."""
        session.stop_timers()
        self._sessions.pop(session.client_id, None)
        self.quota.forget(session)
        away = session.away
        if away is not None and away.will is not None:
            will, away.will = away.will, None
            self._publish_will(session, will)
        session.write_no_more()
        if session.subscriber is not None:
            self._unsubscribe(session, session.subscriber)
        for publication in session.undecided.values():
            if publication is not None:
                publication.session_rows = None  # it may reach the store behind their deletion
        deletions: list[LoopFuture[Any]] = []
        if session.queue is not None:
            deletions.append(self._queues.ask(DeleteQueue(session.queue.name)))
        if session.was_stored:
            deletions.append(self._delete(session.rows_deleted()))
        if deletions:
            ended = self._ended[session.client_id] = LoopFuture()
            gather(deletions, lambda _: self._forgotten(session.client_id), ended)

    def _unsubscribe(self, session: Session, subscriber: Subscriber) -> None:
        """End the subscriptions of a session."""
        router = self._router.inbox
        for granted in session.table.by_filter.values():
            router.post(RemoveSubscription(subscriber, granted.topic_filter))
        for extra in session.shares.values():
            shared = parse_shared(extra.filter_text, Syntax.MQTT)
            assert shared is not None, "only valid filters are kept"
            if extra.suspended is not None:
                extra.suspended.queue.post(
                    UnbindFlow(extra.suspended.flow_id)
                )  # its suspended messages go to no client [4.8.2-5]
            router.post(LeaveGroup(subscriber, shared.share_name, shared.filter))

    def _delete(self, rows: list[tuple[bytes, bytes | None]]) -> LoopFuture[None]:
        """Have rows deleted, however often the store refuses."""
        token = self._token()
        deleted = self._deleting[token] = LoopFuture()
        self._spool.post(SessionRows(rows, self._cell.inbox, token, until_done=True))
        return deleted

    def _forgotten(self, client_id: str) -> None:
        """The store has nothing of a session any more. Until now its client had no other."""
        self._ended.pop(client_id).set()

    def _store(self, session: Session) -> None:
        away = session.absence()
        row = session.state_row(will=will_to_row(away.will), closed_wall_ms=away.closed_wall_ms)
        session.set_stored_row(b"")
        # The client gets no confirmation of this write: rows stay unstored until it reconnects and waits for them.
        rows: list[tuple[bytes, bytes | None]] = session.unstored_rows()
        if away.will_published is None:
            rows.append((session.state_key(), row))
        else:  # one commit for both: the state without the will
            away.will_published.session_rows = [(session.state_key(), row)]
        ids = session.ids_row()
        if ids is not None:
            rows.append((session.ids_key(), ids))
        token = self._token()
        self._storing[token] = session
        self._spool.post(SessionRows(rows, self._cell.inbox, token))

    # --- after a restart ---

    async def _restore(self, message: RestoreSessions) -> int:
        """Bring back the sessions that the store knows; return how many."""
        left_behind = rows_left_behind(message.rows)
        if left_behind:  # else the next start would give them to the session that its client begins now
            self._delete([(self._row_prefix + key, None) for key in left_behind])
        wall_ms = self._runtime.clock.wall_ms()
        handles: list[LocalQueue] = await self._queues.ask(ListQueues())
        queues = {handle.name: handle for handle in handles}
        received = received_by_client(message.rows)
        subscriptions = subscriptions_by_client(message.rows)
        joined: set[str] = set()  # queues of shared subscriptions
        for key, state in message.rows.items():
            if not key.startswith(STATE_ROW):
                continue
            client_id = key[len(STATE_ROW) :].decode()
            stored = self._stored_session(client_id, state, message.rows, received, subscriptions)
            await self._bring_back(stored, queues.get(stored.session.queue_name()), wall_ms)
            joined.update([extra.queue_name for extra in stored.extras])
        for handle in handles:
            if handle.kind == SHARED and handle.name not in joined:
                # A crash came behind the end of its last member's session, and before the queue was deleted.
                self._queues.inbox.post(DeleteQueue(handle.name))
        return len(self._sessions)

    def _stored_session(
        self,
        client_id: str,
        state: bytes,
        rows: dict[bytes, bytes],
        received: dict[str, list[int]],
        subscriptions: dict[str, list[bytes]],
    ) -> StoredSession:
        """Return the session of these rows."""
        return StoredSession(
            client_id,
            state,
            rows.get(ids_key(client_id)),
            received.get(client_id, []),
            subscriptions.get(client_id, []),
            self._selectors,
            row_prefix=self._row_prefix,
        )

    async def _bring_back(self, stored: StoredSession, queue: LocalQueue | None, wall_ms: int) -> None:
        session = stored.session
        self._sessions[session.client_id] = session
        await subscribe_again(stored, queue, router=self._router, cell=self._cell)
        # Connections ended by a crash count from now: the time of their end is unknown.
        away = session.absence()
        away.closed_wall_ms = stored.closed_wall_ms or wall_ms
        away.will = will_from_row(stored.will)
        self._count(session)
        if queue is not None and queue.move is not None:
            self._held[session.client_id] = None  # it moves: what is due is due at its new broker
            return
        if not stored.closed_wall_ms and session.expiry_s != NEVER_EXPIRES:
            self._store(session)  # the next start counts from there
        self._set_timers_of(session, wall_ms)

    def _set_timers_of(self, session: Session, wall_ms: int) -> None:
        """Set the timers of a session whose client has been away for some time."""
        away = session.absence()
        away_ms = wall_ms - away.closed_wall_ms
        will_ms = 0 if away.will is None else min(away.will.delay_s, session.expiry_s) * 1000
        self._set_timers(session, max(0, will_ms - away_ms), max(0, session.expiry_s * 1000 - away_ms))


async def _unsettled_in(queue: LocalQueue | None) -> list[tuple[int, int]]:
    """Return the sequences of the messages in a session's queue, as half-open ranges."""
    if queue is None:
        return []
    found: FoundSequences = await queue.cell.ask(LookUpSequences([(0, SEQUENCES_END)]))
    return found.unsettled
