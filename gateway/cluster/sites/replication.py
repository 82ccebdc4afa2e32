"""One replica's part in the replication between two sites: what both are, what the standby one lacks, and switches.

It has a thread of its own, with a connection to the servers of each site, so neither a slow way between the sites nor a
mate that is away holds anything up here. Nothing is ever written to the servers of the other site.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import CancelledError, Future
from contextlib import aclosing, suppress
from typing import Any, Final, final

from sluicegate.gateway.cluster.background import TaskEnded, watched
from sluicegate.gateway.cluster.log.servers import AGAIN_S, Servers
from sluicegate.gateway.cluster.sites.alarm import SiteAlarm
from sluicegate.gateway.cluster.sites.surplus import Surplus
from sluicegate.gateway.config.model import Config
from sluicegate.gateway.observability.metrics.metric import Sample
from sluicegate.gateway.views.cluster import ReplicationView
from sluicegate.gateway.views.errors import CannotStart, NotReady, Refused
from sluicegate.messaging.observability.events import EventKind
from sluicegate.storage.errors import StorageError
from sluicegate.storage.replication.jetstream import JetStream
from sluicegate.storage.replication.messages import Handed
from sluicegate.storage.replication.replica import LogMissing
from sluicegate.storage.replication.sites.keys import SiteKeys, StoredState
from sluicegate.storage.replication.sites.receiving import Joint, LagMeter, Receiver, SiteLag, join
from sluicegate.storage.replication.sites.seeding import has_begun, seed
from sluicegate.storage.replication.sites.states import (
    CannotSwitch,
    Decision,
    SiteRole,
    SiteState,
    answered,
    begun_anew,
    decide,
    demoted,
    demoting,
    first_state,
    following,
    is_later,
    promoted,
    promoted_with_loss,
    serving,
)
from sluicegate.storage.replication.stream import StreamUnavailable
from sluicegate.storage.replication.trimming.snapshots import Snapshots
from sluicegate.storage.store.owner import LoopThread

LOOK_S: Final = 0.5  # between two looks at the states of the sites
RECEIVE_S: Final = 1.0  # for which a read waits
MATE_GONE_S: Final = 5.0  # without an answer, and its state does not count as known
REMIND_S: Final = 30.0

log = logging.getLogger("sluicegate.cluster")


@final
class SiteReplication:
    """What one replica knows of the two sites. Methods are for the event loop of the process, where not said."""

    def __init__(
        self,
        config: Config,
        *,
        changed: Callable[[], None],
        handed: Callable[[], tuple[Handed | None, int]],
        owner_rows: Callable[[], Iterable[tuple[bytes, bytes]]],
        task_ended: TaskEnded,
    ) -> None:
        """`changed` is called on the loop here when the state of either site is another.

        `handed` returns, for any thread, what gives the broker up to a site at the end of what this replica has read of
        the log, and the last message that it has read. For `owner_rows` see `Surplus`. `task_ended` is told of a task
        with an error, on any thread.
        """
        self.settings: Final = config.cluster.replication
        self._config: Final = config
        self._changed: Final = changed
        self._handed: Final = handed
        self._task_ended: Final = task_ended
        self._loop: Final = asyncio.get_running_loop()
        self._thread: Final = LoopThread()
        self._own: Final = Servers(config.node.name, config.cluster)
        self._mates: Final = Servers(config.node.name, config.cluster, servers=self.settings.mate_servers)
        self._surplus: Final = Surplus(config, owner_rows)
        self._is_mate_connected = False
        self._stored: StoredState | None = None
        self._mate: SiteState | None = None
        self._mate_s = float("-inf")  # when it answered last
        self._meter: Final = LagMeter()
        self._receives = False  # this replica is to receive
        self._is_joined = False  # it does, and what it has is a beginning of the mate's log
        self._received_count = self._received_bytes = 0
        self._receiving: Future[None] | None = None
        self._is_closed = False
        self.generation = 0  # with which this replica was opened
        self.problem = ""

    # --- what is known ---

    @property
    def state(self) -> SiteState:
        """The state of this site, as it was read last. For any thread."""
        assert self._stored is not None
        assert self._stored.state is not None
        return self._stored.state

    def _known(self) -> SiteState:
        """Return the state of this site. Raises NotReady at the start of the replica."""
        if self._stored is None:
            raise NotReady(f"this replica starts, and {self.problem or 'waits for the NATS servers'}; try again")
        return self.state

    @property
    def mate(self) -> SiteState | None:
        """The state of the other site, None when it does not answer. For any thread."""
        return self._mate if time.monotonic() - self._mate_s < MATE_GONE_S else None

    @property
    def lag(self) -> SiteLag | None:
        """What the standby site lacks, None while it is not known. For any thread."""
        return self._meter.lag(time.monotonic())

    def decision(self, *, is_continued: bool) -> Decision:
        """Return what this replica does, which has the key of its site's owners. See `decide`."""
        return decide(self.state, self.mate, is_continued=is_continued)

    def view(self) -> ReplicationView:
        """Return the sites for operators. Raises NotReady at the start of the replica."""
        state, mate, lag = self._known(), self.mate, self.lag
        handed, _ = self._handed()
        return ReplicationView(
            broker=self._config.node.name,
            replica=self._config.cluster.replica,
            site=state.site,
            role=state.role.value,
            epoch=state.epoch,
            mate=self.settings.mate,
            mate_role="" if mate is None else mate.role.value,
            mate_epoch=0 if mate is None else mate.epoch,
            lag_messages=None if lag is None else lag.messages,
            lag_bytes=None if lag is None else lag.byte_count,
            lag_seconds=None if lag is None else lag.age_s,
            is_receiving=self._is_joined,
            ends_with_handover=state.role is SiteRole.STANDBY and handed is not None and handed.site == state.site,
            surplus=self._surplus.files(),
            problem=self.problem or self._conflict(),
        )

    def _conflict(self) -> str:
        """Return that both sites serve, and neither of them stops by itself; empty if it is not so."""
        state, mate = self.state, self.mate
        if mate is None or not state.role is mate.role is SiteRole.ACTIVE or state.epoch != mate.epoch:
            return ""
        return f"sites {state.site} and {mate.site} were both promoted: demote the one that shall not stay"

    def samples(self) -> list[Sample]:
        """Return what is measured of the sites; nothing at the start of the replica."""
        if self._stored is None:
            return []
        values: dict[str, float] = {
            "active": self.state.role is SiteRole.ACTIVE,
            "epoch": self.state.epoch,
            "mate_up": self.mate is not None,
            "receiving": self._is_joined,
            "received_total": self._received_count,
            "received_bytes_total": self._received_bytes,
            "surplus_files": len(self._surplus.files()),
        }
        if (lag := self.lag) is not None:
            values |= {"lag_messages": lag.messages, "lag_bytes": lag.byte_count, "lag_seconds": lag.age_s}
        return [Sample(f"sluicegate_replication_{name}", float(value)) for name, value in values.items()]

    def alarm(self, report: Callable[[EventKind, str], None]) -> Callable[[float], None]:
        """Return what looks at the lag from time to time, and reports when the other site is behind for too long."""
        alarm = SiteAlarm(self.settings.mate, self.settings.lag_s_max, report, self._loop.time())
        return lambda now_s: alarm.look(self.lag, now_s)

    # --- the begin and the end ---

    async def open(self) -> None:
        """Learn the state of this site, however long it takes, and have a log to follow. Raises CannotStart.

        The bucket of this site is there.
        """
        await self._thread.result_of(self._own.connect())
        self._begin("connection to the other site", self._connect_mate())
        await self._thread.result_of(self._until_done(self._first_look))
        self.generation = self.state.generation
        self._surplus.set_aside(self.generation)
        self._begin("state of the other site", self._look_at_mate())
        self._begin("state of this site", self._look_at_own())
        await self._thread.result_of(self._until_done(self._seed))

    def _begin(self, name: str, work: Coroutine[Any, Any, None]) -> Future[None]:
        task = self._thread.begin(work)
        watched(name, task, self._task_ended)
        return task

    async def close(self) -> None:
        """End all of it."""
        self._is_closed = True
        with suppress(CancelledError):
            await self._thread.result_of(self._own.close())
            await self._thread.result_of(self._mates.close())
        await asyncio.to_thread(self._thread.close)

    # --- switches ---

    async def demote(self) -> None:
        """Have the active site give the broker up to the mate. Raises Refused."""
        self._known()
        mate = self.mate
        if mate is None:
            raise Refused(f"site {self.settings.mate} does not answer: nobody could take the broker over")
        if mate.role is SiteRole.DEMOTING:
            raise Refused(f"site {mate.site} is being demoted as well; try again when it is the standby")
        await self._switch(demoting)

    async def promote(self, *, accept_loss: bool) -> None:
        """Have this site serve. Raises Refused."""
        if self._known().role is SiteRole.ACTIVE and self.mate is not None:
            raise Refused(f"site {self.settings.site} is active already")
        handed, unanswered = await self._thread.result_of(self._handed_at_end())
        if accept_loss and (handed is None or handed.site != self.settings.site):
            incarnation = secrets.randbits(64)
            await self._switch(lambda own: promoted_with_loss(own, self._mate, incarnation))
        else:
            await self._switch(lambda own: promoted(own, self._mate, handed, unanswered=unanswered))

    async def _switch(self, change: Callable[[SiteState], SiteState]) -> None:
        try:
            state = await self._thread.result_of(self._put(change))
        except CannotSwitch as error:
            raise Refused(str(error)) from None
        except StorageError as error:
            raise Refused(f"the state of site {self.settings.site} cannot be written: {error}") from None
        log.warning("site %s is %s from now on, with epoch %d", state.site, state.role, state.epoch)

    async def begin_to_serve(self, first: int) -> None:
        """Note that the site serves; `first` is the message with which its owner has taken over. Raises StorageError.

        What has to be skipped was skipped.
        """
        await self._thread.result_of(self._until_done(lambda: self._put(lambda own: serving(own, first))))

    async def note_demoted(self) -> None:
        """Note that this site serves no more: its log gives the broker up, or the mate was promoted meanwhile."""
        await self._thread.result_of(self._until_done(lambda: self._put(demoted)))

    def receive(self) -> None:
        """Begin to receive the log of the mate."""
        self._receives = True
        if self._receiving is None or self._receiving.done():
            self._receiving = self._begin("log of the other site", self._receive())

    def stop_receiving(self) -> None:
        """Receive no more; what is under way may still be stored."""
        self._receives = self._is_joined = False

    # --- on the thread ---

    async def _until_done(self, work: Callable[[], Awaitable[object]]) -> None:
        """Do something that needs servers which may be away."""
        said_s = float("-inf")
        while not self._is_closed:
            try:
                await work()
                self.problem = ""
                return
            except StorageError as error:
                self.problem = str(error)
                if time.monotonic() - said_s > REMIND_S:
                    log.warning("%s; trying again", error)
                    said_s = time.monotonic()
            await asyncio.sleep(AGAIN_S)

    async def _connect_mate(self) -> None:
        await self._mates.connect()
        self._is_mate_connected = True

    def _own_keys(self) -> SiteKeys:
        return SiteKeys(self._own.client, self._config.node.name)

    def _own_stream(self) -> JetStream:
        return JetStream(self._own.client, self._config.node.name, self.generation)

    def _mate_stream(self, mate: SiteState) -> JetStream:
        return JetStream(self._mates.client, self._config.node.name, mate.generation)

    async def _first_look(self) -> None:
        stored = await self._own_keys().read()
        if stored.state is None:
            state = first_state(self.settings.site, is_active=self.settings.role == "active")
            await self._own_keys().put(state, stored.revision)
            stored = await self._own_keys().read()
        if stored.state is None:
            raise StreamUnavailable("the state of the site was written, and is not there")
        if stored.state.site != self.settings.site:
            text = f"these NATS servers are those of site {stored.state.site!r}, and this one is {self.settings.site!r}"
            raise CannotStart(text, advice="Another cluster.replication.site, or other servers.")
        self._stored = stored

    async def _put(self, change: Callable[[SiteState], SiteState]) -> SiteState:
        """Write another state of this site, in the place of the one that it has now. Raises CannotSwitch."""
        while True:
            stored = await self._own_keys().read()
            if stored.state is None:
                raise StreamUnavailable("the state of the site is gone")
            state = change(stored.state)
            revision = stored.revision
            if state != stored.state:
                written = await self._own_keys().put(state, stored.revision)
                if written is None:
                    continue
                revision = written
            self._take(StoredState(state, revision))
            return state

    def _take(self, stored: StoredState) -> None:
        is_new = stored != self._stored
        self._stored = stored
        if is_new:
            self._on_loop()

    def _on_loop(self) -> None:
        with suppress(RuntimeError):  # the loop is closed: the process ends
            self._loop.call_soon_threadsafe(self._changed)

    async def _look_at_own(self) -> None:
        while not self._is_closed:
            with suppress(StorageError):
                stored = await self._own_keys().read()
                if stored.state is not None:
                    self._take(stored)
            await asyncio.sleep(LOOK_S)

    async def _look_at_mate(self) -> None:
        while not self._is_closed:
            with suppress(StorageError):
                await self._ask_mate()
            with suppress(StorageError):
                await self._measure()
            await asyncio.sleep(LOOK_S)

    async def _ask_mate(self) -> SiteState:
        """Return the state of the mate, which is there. Raises StreamUnavailable."""
        if not self._is_mate_connected:
            raise StreamUnavailable(f"site {self.settings.mate} does not answer")
        stored = await SiteKeys(self._mates.client, self._config.node.name).read()
        if not stored.has_bucket and self.state.epoch > 0:
            self.problem = f"the servers in cluster.replication.mate_servers have nothing of site {self.settings.mate}"
            raise StreamUnavailable(self.problem)
        state = first_state(self.settings.mate, is_active=False) if stored.state is None else stored.state
        if state.site != self.settings.mate:
            self.problem = f"cluster.replication.mate_servers are those of site {state.site}, not {self.settings.mate}"
            raise StreamUnavailable(self.problem)
        is_new = state != self._mate or self.mate is None
        self._mate, self._mate_s = state, time.monotonic()
        if is_new:
            self._on_loop()
        if self.state.serves_alone:
            await self._put(answered)
        return state

    async def _measure(self) -> None:
        """Look at the ends of both logs."""
        mate, is_standby = self.mate, self.state.role is SiteRole.STANDBY
        own = await self._own_stream().bounds()
        if not is_standby:
            self._meter.active(own, time.monotonic())
        if mate is None:
            return
        theirs = await self._mate_stream(mate).bounds()
        if is_standby:
            self._meter.active(theirs, time.monotonic())
        self._meter.standby((own if is_standby else theirs).last)

    async def _handed_at_end(self) -> tuple[Handed | None, str]:
        """Return what gives the broker up, if all of the log is here that anybody knows of; and who did not answer."""
        handed, read_through = self._handed()
        try:
            last = (await self._own_stream().bounds()).last
        except StorageError:
            return None, f"the stream of site {self.settings.site}"
        unanswered = f"site {self.settings.mate}"
        if (mate := self.mate) is not None:
            try:
                last = max(last, (await self._mate_stream(mate).bounds()).last)
            except StorageError:
                return None, unanswered
            unanswered = ""
        return handed if last == read_through else None, unanswered

    # --- the standby site ---

    async def _seed(self) -> None:
        """Have a stream here with a beginning of the mate's log, or one that goes on behind a snapshot of it.

        A site that is promoted meanwhile serves with what is there.
        """
        own, broker, cluster, state = self._own_stream(), self._config.node.name, self._config.cluster, self.state
        if state.role is not SiteRole.STANDBY or state.generation != self.generation or await has_begun(own):
            return
        mate = await self._ask_mate()
        try:
            async with aclosing(self._mate_stream(mate)) as source:
                received = await seed(
                    source,
                    own,
                    Snapshots(self._mates.client, broker, None, mate.generation),
                    Snapshots(self._own.client, broker, None, self.generation),
                    replica=cluster.replica,
                    copies=cluster.copies,
                    bytes_max=cluster.log_bytes_max,
                )
        except LogMissing as error:
            log.warning("the log of site %s is received from its begin again: %s", mate.site, error)
            await self._put(lambda now: begun_anew(now, mate) if now == state else now)
            return
        await self._put(lambda now: following(now, mate) if now.role is SiteRole.STANDBY else now)
        log.info("received %d messages of the log of site %s", received, self.settings.mate)

    async def _receive(self) -> None:
        while self._receives and not self._is_closed:
            self._is_joined = False
            try:
                await self._receive_once()
            except (StorageError, OSError) as error:
                if str(error) != self.problem:
                    log.warning("the log of site %s cannot be received: %s; trying again", self.settings.mate, error)
                self.problem = str(error)
            await asyncio.sleep(AGAIN_S)

    async def _receive_once(self) -> None:
        """Receive for as long as both sites are as they are now."""
        mate = await self._ask_mate()
        async with aclosing(self._mate_stream(mate)) as source:
            await self._receive_from(source, mate)

    async def _receive_from(self, source: JetStream, mate: SiteState) -> None:
        own = self._own_stream()
        if mate.role is SiteRole.STANDBY and (await source.bounds()).last <= (await own.bounds()).last:
            self.problem = f"site {mate.site} is the standby, too: promote one of them"
            return
        state = self.state
        joined = await join(source, own, base=mate.base, is_later=is_later(state, mate))
        if joined.joint is not Joint.FOLLOWS:
            if joined.joint is Joint.DIVERGED:
                await self._surplus.export(own, joined, state)
            log.warning("the log of site %s cannot go on here: it is begun anew", mate.site)
            await self._put(lambda now: begun_anew(now, mate) if now == state else now)
            return
        if mate.role is not SiteRole.STANDBY:
            await self._put(lambda now: following(now, mate) if now.role is SiteRole.STANDBY else now)
        receiver = Receiver(source, own, joined.common)
        self.problem = ""
        self._is_joined = True
        counted = counted_bytes = 0
        while self._receives and self._mate == mate and self.mate is not None:
            if not await receiver.receive(RECEIVE_S):
                return
            self._meter.standby(receiver.position)
            self._received_count += receiver.received_count - counted
            self._received_bytes += receiver.received_bytes - counted_bytes
            counted, counted_bytes = receiver.received_count, receiver.received_bytes
