"""One replica of a broker, from its start to its end: a standby that takes over, and an owner that serves clients.

An owner that has lost its broker does not become a standby again in the same process: it has a node full of clients,
messages and timers, of which nothing may be done any more. So the process is replaced by a new one at once.
"""

import asyncio
import logging
import os
import secrets
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from enum import Enum
from typing import Any, Final, final

from sluicegate.actors.runtime.inbox import CallSoon
from sluicegate.actors.runtime.runtime import CallLater
from sluicegate.gateway.build import VERSION
from sluicegate.gateway.cluster.background import watched
from sluicegate.gateway.cluster.log.clock import LogClock
from sluicegate.gateway.cluster.log.spool import ReplicaSpool
from sluicegate.gateway.cluster.membership import members
from sluicegate.gateway.cluster.membership.members import ReplicaState
from sluicegate.gateway.cluster.membership.operations import Membership, view_of
from sluicegate.gateway.cluster.replica.alarms import APPEND_S_MAX, Alarms
from sluicegate.gateway.cluster.replica.disk_room import DiskWatch, has_room
from sluicegate.gateway.cluster.replica.ownership import Ownership
from sluicegate.gateway.cluster.replica.pod_label import PodLabel, own_pod
from sluicegate.gateway.cluster.replica.turns import guarded, guarded_timers
from sluicegate.gateway.cluster.sites.replication import SiteReplication
from sluicegate.gateway.cluster.sites.turns import Change, SitesChanged, SiteTurns
from sluicegate.gateway.config.model import Config
from sluicegate.gateway.node.environment import Environment, OperatorPorts
from sluicegate.gateway.node.node import Node
from sluicegate.gateway.observability.metrics.metric import Sample
from sluicegate.gateway.process.run import collect_from_now_on, freeze, make_node
from sluicegate.gateway.views.cluster import NO_MATE, ClusterView, ReplicaView
from sluicegate.gateway.views.errors import CannotStart, Refused
from sluicegate.messaging.observability.events import (
    SYSTEM_HA_CLOCK,
    SYSTEM_HA_DISK_FULL,
    SYSTEM_HA_LEVEL,
    SYSTEM_HA_OWNER,
    SYSTEM_HA_STANDBY_DROPPED,
)
from sluicegate.protocols.transport.loop.event_loop import running_sockets, timers_of_sockets, turns_of_sockets
from sluicegate.storage.errors import StorageError, UnsupportedFormat
from sluicegate.storage.interface import Store
from sluicegate.storage.replication.jetstream import stream_name
from sluicegate.storage.replication.ownership.lease import Stopped, Taken
from sluicegate.storage.replication.replica import LogTrimmed, OwnershipLost
from sluicegate.storage.replication.sites.states import Decision, SiteRole
from sluicegate.storage.replication.trimming.plan import Hold

BEAT_S: Final = 0.5
CLIENTS_S: Final = 0.2  # for clients to close their connections: the standby that takes over waits for it
STOP_S: Final = 10.0  # after that commits that wait for the servers are given up

log = logging.getLogger("sluicegate.cluster")


class End(Enum):
    """Why a replica has ended."""

    STOPPED = "stopped"  # it was told to
    LOST = "lost"  # it is the owner no more, or the log was trimmed past it: the process begins anew as a standby
    FAILED = "failed"  # it cannot go on
    OUTDATED = "outdated"  # the log needs a later release


EXIT_CODES: Final = {End.FAILED: 1, End.OUTDATED: 4}  # of the process; 0 else


@final
class ReplicaProcess:
    """The replica of this process."""

    def __init__(
        self,
        config: Config,
        *,
        operator_ports: Callable[[Node], OperatorPorts],
        operator_endpoints: Callable[[], list[tuple[str, str]]],
    ) -> None:
        """`operator_ports` makes what takes the place of a node's ports: those of the replica are open already.

        `operator_endpoints` returns these, with name and URL.
        """
        self.config = config
        self._operator_ports: Final = operator_ports
        self._operator_endpoints: Final = operator_endpoints
        self._instance: Final = secrets.token_hex(8)
        self._role = members.STARTING
        self._loop: Final = asyncio.get_running_loop()
        self._end: asyncio.Future[End] = self._loop.create_future()
        self._gone: asyncio.Future[str] = self._loop.create_future()  # why the replica is the owner no more
        self._changes: Final[asyncio.Queue[Change]] = asyncio.Queue()
        self._epoch_of_lease = 0  # of the key that this replica has, as it was told last; 0: it has none
        self._successor: str | None = None  # to which an operator hands over; empty: to any
        self._is_demoted = False  # the owner gives the broker up to the other site
        self.is_told_to_stop = False  # whatever else has ended it before
        self.node: Node | None = None
        self._endpoints: tuple[tuple[str, str], ...] = ()  # of the node, for any thread
        label = config.cluster.pod_label
        self._label: Final = PodLabel(own_pod(os.environ), label) if label else None
        self.spool: Final = ReplicaSpool(
            config,
            appended=lambda sent_s: self.ownership.appended(sent_s),
            is_maker=self._makes_snapshots,
            hold_revoked=self._hold_revoked,
            level_raised=self._level_raised,
            lost=self._lost_in_commit,
            task_ended=self._task_ended,
        )
        self.sites: Final = self._made_sites() if config.cluster.replication.enabled else None
        self._site: Final = (
            None if self.sites is None else SiteTurns(self.sites, self.spool, lambda: self.ownership.members)
        )
        self.ownership: Final = Ownership(
            config,
            self._instance,
            is_caught_up=self.spool.is_caught_up,
            state=self.state,
            changed=self._lease_changed,
            asked=self._asked_to_hand_over,
            removed=self._removed,
            task_ended=self._task_ended,
        )

        self.membership: Final = Membership(
            self.ownership.asked_of_servers, self.ownership.names, self.ownership.members
        )

    def _made_sites(self) -> SiteReplication:
        return SiteReplication(
            self.config,
            changed=self._sites_changed,
            handed=lambda: (self.spool.replica.handed, self.spool.replica.read_through),
            owner_rows=lambda: self.spool.owner_rows(),
            task_ended=self._task_ended,
        )

    async def run(self, *, ready: Callable[[Node], None], standing_by: Callable[[], None]) -> End:
        """Be a standby, and the owner when it is this replica's turn. Raises CannotStart.

        `standing_by` is called once, `ready` when a node takes traffic.
        """
        beating = self._begin("beat", self._beat())
        try:
            self._tell_pod(is_owner=False)
            opening = asyncio.create_task(self._open())
            await _first_of(opening, self._end)
            if not opening.done():
                opening.cancel()
                return self._end.result()
            opening.result()
            self._role = members.STANDBY
            standing_by()
            return await self._take_turns(ready)
        finally:
            beating.cancel()

    def stop(self) -> None:
        """Have `run` return: the node stops in order, and a standby takes over."""
        self.is_told_to_stop = True
        self._finish(End.STOPPED)

    async def _open(self) -> None:
        await self.ownership.join()
        if self.sites is not None:
            await self.sites.open()
        await self.spool.open(self._generation)
        self.spool.follow()
        await self.ownership.open()

    # --- the turns of a replica ---

    async def _take_turns(self, ready: Callable[[Node], None]) -> End:
        while not self._end.done():
            change = await self._next_change()
            if not isinstance(change, Taken):
                continue
            if self._site is not None and not await self._site.until_ours(self._next_change):
                continue
            if await self._take_over(change.epoch):
                return await self._serve(ready)
        await self._close()
        return self._end.result()

    def _lease_changed(self, change: Taken | Stopped) -> None:
        self._epoch_of_lease = change.epoch if isinstance(change, Taken) else 0
        self._changes.put_nowait(change)

    async def _next_change(self) -> Change | None:
        """Return the next change of ownership or of the sites, None when the replica ends before."""
        getting = asyncio.ensure_future(self._changes.get())
        await _first_of(getting, self._end)
        if getting.done():
            return getting.result()
        getting.cancel()
        return None

    async def _take_over(self, epoch: int) -> bool:
        """Become the owner of the log; return whether that succeeded. Else the replica follows the log again."""
        self._role = members.TAKING_OVER
        log.info("takes over, with epoch %d", epoch)
        if self._site is not None:
            self._site.take_over()
        await self.spool.stop_following()
        taking = asyncio.ensure_future(self.spool.take_over(epoch))
        await _first_of(taking, self._end)
        if not taking.done():  # the servers do not answer
            await asyncio.to_thread(self.spool.abandon)
            await _first_of(taking)
            return False
        try:
            taking.result()
            if self._epoch_of_lease == epoch and self.ownership.serves():
                return True
            reason = "its lease was over before it had read the log"
        except OwnershipLost as error:
            reason = str(error)
        except StorageError as error:
            self._failed(error)
            return False
        log.warning("has not taken over: %s", reason)
        self.spool.step_down()
        self.ownership.give_up(epoch, reason)
        self._role = members.STANDBY
        self.spool.follow()
        return False

    # --- the owner ---

    async def _serve(self, ready: Callable[[Node], None]) -> End:
        """Run the node until the replica ends, or is the owner no more."""
        ahead_ms = self.spool.ahead_ms()
        environment = Environment(turns=self._turns, timers=self._timers, is_replicated=True)
        running_sockets().guard(self._may_serve)
        store = self.spool.owned(0 if self.sites is None else self.sites.state.incarnation)
        if self._site is not None and not await self._begun_at(self._site, store):
            return await self._end
        node = self.node = make_node(
            self.config, store, clock=LogClock(ahead_ms), environment=environment, operator_ports=self._operator_ports
        )
        node.failed.add_done_callback(lambda failed: self._failed(failed.result()))
        watching = self._begin("changes of the owner", self._watch())
        try:
            if not await self._started(node):
                return self._end.result()
            self._take_traffic(node, ahead_ms)
            ready(node)
            collect_from_now_on()
            alarming = self._begin("alarms", self._alarm(node))
            end = await asyncio.shield(self._end)
            alarming.cancel()
        finally:
            watching.cancel()
        self._tell_pod(is_owner=False)
        if end is End.STOPPED or self._successor is not None or self._is_demoted:
            await self._stop_in_order(node)
        else:
            await self._hand_over()
        return end

    async def _begun_at(self, site: SiteTurns, store: Store) -> bool:
        """Begin to serve at a site; return whether this replica is to. Otherwise it ends."""
        beginning = asyncio.ensure_future(site.begin(store))
        await _first_of(beginning, self._end)
        try:
            if beginning.done() and beginning.result():
                return True
            self._finish(End.LOST)
        except StorageError as error:
            self._failed(error)
        return False

    async def _started(self, node: Node) -> bool:
        """Start the node; return whether the replica is still the owner. Raises CannotStart."""
        starting = asyncio.ensure_future(node.start(before_opening=freeze))
        await _first_of(starting, self._gone)
        if not starting.done():  # its actors have no turn any more, so it would wait for ever
            starting.cancel()
            return False
        try:
            starting.result()
        except CannotStart:
            await self._stop_in_order(node)  # another replica may have the ports that are taken here
            raise
        return True

    def _take_traffic(self, node: Node, ahead_ms: int) -> None:
        self.ownership.alive()  # to read a large spool takes long, and nothing else ran meanwhile
        self._endpoints = tuple(node.endpoints())
        self._role = members.OWNER
        self._tell_pod(is_owner=True)
        events = node.services.runtime.events
        events.emit(SYSTEM_HA_OWNER, self._owns())
        if ahead_ms:
            events.emit(SYSTEM_HA_CLOCK, f"this machine's clock {_off(ahead_ms)}, and is not used")

    async def _stop_in_order(self, node: Node) -> None:
        """Stop the node, and then let a standby have the broker at once."""
        if self._site is not None and self._is_demoted:
            self._site.stop()
        giving_up = self._loop.call_later(STOP_S, lambda: self._loop.run_in_executor(None, self.spool.abandon))
        stopping = asyncio.ensure_future(node.stop(clients_s=CLIENTS_S))
        await _first_of(stopping, self._gone)
        giving_up.cancel()
        self.node = None
        self._endpoints = ()
        if not stopping.done():  # likewise
            stopping.cancel()
            log.error("the node was not stopped in order: %s", self._gone.result())
            return
        stopping.result()
        if self._site is not None and self._is_demoted:
            await self._site.give_up()
        await self._hand_over()
        await self._close()

    async def _hand_over(self) -> None:
        """Have a standby take over at once if this replica is the owner still. Nothing is committed any more.

        If none is known, whichever replica comes next need not wait for the lease.
        """
        successor = self._successor or self.ownership.members.successor(self._loop.time())
        if self.ownership.serves():
            log.info("hands over to %s", successor or "whichever replica comes")
            await self.ownership.hand_over(successor)

    def _tell_pod(self, *, is_owner: bool) -> None:
        if self._label is not None:
            self._label.follow(is_owner=is_owner)

    def _owns(self) -> str:
        cluster = self.config.cluster
        return f"replica {cluster.replica} owns broker {self.config.node.name}, with epoch {self.spool.replica.epoch}"

    async def _alarm(self, node: Node) -> None:
        me, events = self.config.cluster.replica, node.services.runtime.events
        alarms = Alarms(lambda kind, text: events.emit(kind, text), self._why_it_cannot_read)
        of_site = None if self.sites is None else self.sites.alarm(lambda kind, text: events.emit(kind, text))
        disk = DiskWatch()
        while True:
            now_s = self._loop.time()
            usage, with_room = self.spool.usage, self.ownership.members.successor_with_room(now_s)
            if usage is not None and disk.hands_over(usage, with_room, now_s):
                assert with_room is not None
                said = f"the disk of replica {me} is full ({usage.disk_free_bytes} bytes are free)"
                events.emit(SYSTEM_HA_DISK_FULL, f"{said}: it hands over to replica {with_room}, whose disk has room")
                self._asked_to_hand_over(with_room)
            if of_site is not None:
                of_site(now_s)
            standbys = [name for name in self.ownership.names.names if name != me]
            present, spool = self.ownership.members.present(now_s), self.spool
            alarms.look(standbys, present, spool.append_waits_s(), now_s, held_back=spool.held_back())
            await asyncio.sleep(BEAT_S)

    async def _watch(self) -> None:
        while True:
            change = await self._changes.get()
            if isinstance(change, Stopped) and self._successor is None:
                self._lost(change.reason)
            elif isinstance(change, SitesChanged):
                self._follow_sites()

    def _follow_sites(self) -> None:
        """Serve no more, if it is not for this site to serve."""
        sites = self.sites
        assert sites is not None
        if sites.state.role is SiteRole.DEMOTING:
            if not self._end.done():
                self._is_demoted = True
                self._finish(End.LOST)
        elif sites.decision(is_continued=True) is not Decision.SERVE:
            self._lost(f"site {sites.settings.mate} was promoted")

    def _sites_changed(self) -> None:
        assert self.sites is not None
        if self.sites.state.generation != self.sites.generation:
            log.warning("the log of this site is begun anew, and this replica with it")
            self._finish(End.LOST)
        self._changes.put_nowait(SitesChanged())

    def _turns(self) -> CallSoon:
        return guarded(turns_of_sockets(), self.ownership.serves, self._lease_is_over)

    def _timers(self) -> CallLater:
        return guarded_timers(timers_of_sockets(), self.ownership.serves, self._lease_is_over)

    def _may_serve(self) -> bool:
        """Return whether sockets that are ready may be read and written."""
        if self.ownership.serves():
            return True
        self._lease_is_over()
        return False

    def _lease_is_over(self) -> None:
        self._lost("its lease is over")

    def _asked_to_hand_over(self, successor: str) -> None:
        if self.node is not None and not self._end.done():
            self._successor = successor
            self._finish(End.LOST)

    def _removed(self) -> None:
        """Leave: an operator has taken this replica out of the list. An owner goes when another one can take over."""
        if self._role == members.STANDBY and not self._end.done():
            log.warning("this replica is none of the broker's any more: it begins anew, and waits")
            self._finish(End.LOST)
        elif self._role == members.OWNER and self.ownership.members.successor(self._loop.time()) is not None:
            self._asked_to_hand_over("")

    # --- ends ---

    def _lost(self, reason: str) -> None:
        if not self._gone.done():
            self._gone.set_result(reason)
        if not self._end.done():
            log.error("this replica is not the owner any more: %s; it begins anew as a standby", reason)
            self._finish(End.LOST)

    def _lost_in_commit(self, reason: str) -> None:
        self._on_loop(self._lost, reason)

    def _begin(self, name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        watched(name, task, self._task_ended)
        return task

    def _task_ended(self, name: str, error: BaseException) -> None:
        """Take that a task has ended which should not. For any thread."""
        self._on_loop(self._failed, error, name)

    def _failed(self, error: BaseException, task: str = "") -> None:
        """End, unless there is an end already. `task` is that which failed, if it was one beside the others."""
        if self._end.done():
            return
        if isinstance(error, LogTrimmed):
            log.warning("the log was trimmed past what this replica has: it begins anew from a snapshot")
            self._finish(End.LOST)
        elif isinstance(error, UnsupportedFormat):
            log.error("this replica cannot read the log: %s", error)
            self._finish(End.OUTDATED)
        elif isinstance(error, asyncio.CancelledError) and self._is_cut_off():
            self._cut_off()
        else:
            is_known = isinstance(error, StorageError | CannotStart)
            log.error(
                "this replica cannot go on: %s%s",
                f"task {task!r} has ended: " if task else "",
                error if is_known else repr(error),
                exc_info=None if is_known else error,
            )
            self._finish(End.FAILED)

    def _makes_snapshots(self) -> bool:
        """Return whether this replica is the one that makes snapshots. For any thread."""
        return self.ownership.members.snapshot_maker(time.monotonic()) == self.config.cluster.replica

    def _hold_revoked(self, hold: Hold) -> None:
        """Report that the log is trimmed beyond what a replica has. For any thread."""
        text = f"the log is too large to wait for replica {hold.replica}, which has record {hold.position} of it"

        def emit() -> None:
            if self.node is not None:
                self.node.services.runtime.events.emit(SYSTEM_HA_STANDBY_DROPPED, text)

        self._on_loop(emit)

    def _level_raised(self, level: int) -> None:
        """Report that the log has a higher level from now on. For any thread."""

        def emit() -> None:
            if self.node is not None:
                text = f"the log has feature level {level}: it cannot be read by releases that read less"
                self.node.services.runtime.events.emit(SYSTEM_HA_LEVEL, text)

        self._on_loop(emit)

    def _why_it_cannot_read(self, replica: str) -> str:
        return "" if self.spool.level is None else self.spool.level.why_it_cannot_read(replica)

    def _reads_level(self, replica: str) -> int:
        said = None if self.spool.level is None else self.spool.level.readable.get(replica)
        return 0 if said is None else said.level

    def _on_loop(self, call: Callable[..., None], *given: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: the process ends
            self._loop.call_soon_threadsafe(call, *given)

    def _finish(self, end: End) -> None:
        if not self._end.done():
            self._end.set_result(end)

    async def _close(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_S):
                await self.ownership.close()
        if self.sites is not None:
            await self.sites.close()
        await self.spool.close()

    async def _beat(self) -> None:
        while True:
            self.ownership.alive()
            if self._is_cut_off() and not self._end.done():
                self._cut_off()
            await asyncio.sleep(BEAT_S)

    def _is_cut_off(self) -> bool:
        return self.ownership.is_cut_off or self.spool.is_cut_off

    def _cut_off(self) -> None:
        log.error("the NATS servers have closed a connection for good; this replica begins anew")
        self._finish(End.LOST)

    # --- what it says of itself ---

    @property
    def role(self) -> str:
        """What the replica does; one of those in `gateway.cluster.membership.members`."""
        return self._role

    def obstacle(self) -> str:
        """Return why this replica does not do what it is there for; empty if it does.

        A standby could take over at once, and an owner reaches its log.
        """
        waits_s = self.spool.append_waits_s()
        if waits_s > APPEND_S_MAX:
            return f"no majority of the NATS servers has confirmed an append for {waits_s:.0f} s"
        state = self.state()
        if state.caught_up and not state.problem:
            return ""
        what = "owns the broker" if state.role == members.OWNER else "cannot take over"
        return f"replica {state.name} {what}: {state.problem or 'it has not read the log yet'}"

    def endpoints(self) -> list[tuple[str, str]]:
        """Return name and URL of each open port."""
        return [*self._endpoints, *self._operator_endpoints()]

    @property
    def _generation(self) -> int:
        return 0 if self.sites is None else self.sites.generation

    def replicating(self) -> SiteReplication:
        """Return the replica's part in the replication between two sites. Raises Refused if there is one site."""
        if self.sites is None:
            raise Refused(NO_MATE)
        return self.sites

    def view(self) -> ClusterView:
        """Return the broker and its replicas, as this one knows them."""
        present = self.ownership.members.present(self._loop.time())
        owner = self.ownership.members.owner(self._loop.time())
        spool = self.spool
        return ClusterView(
            broker=self.config.node.name,
            replica=self.config.cluster.replica,
            role=self._role,
            owner="" if owner is None else owner.name,
            epoch=spool.replica.owner_epoch,
            stream=stream_name(self.config.node.name, self._generation),
            log_bytes=spool.log_bytes,
            log_bytes_max=self.config.cluster.log_bytes_max,
            clock_ahead_ms=spool.ahead_ms(),
            level=spool.replica.level,
            log=None if spool.trimming is None else spool.trimming.state.view(),
            replicas=tuple(self._view_of(name, present.get(name)) for name in self.ownership.names.names),
        )

    def _view_of(self, name: str, state: ReplicaState | None) -> ReplicaView:
        trimming = self.spool.trimming
        view = view_of(name, state, reads_level=self._reads_level(name), away=self._why_it_cannot_read(name))
        return view if trimming is None else replace(view, hold=trimming.state.holds.get(name, 0))

    def _waits(self) -> str:
        return self.ownership.names.waits or "it waits for the NATS servers" if self._role == members.STARTING else ""

    def _conflict(self) -> str:
        """Return in what the replicas were configured wrongly; empty if nothing is known."""
        cluster, heard, now_s = self.config.cluster, self.ownership.members, time.monotonic()
        if heard.is_double(now_s):
            return f"two processes run as replica {cluster.replica}"
        others = [each for each in heard.present(now_s).values() if each.lease_ms != cluster.lease_ms]
        if others:
            return f"cluster.lease_ms is {cluster.lease_ms}, and {others[0].lease_ms} at replica {others[0].name}"
        return ""

    def samples(self) -> list[Sample]:
        """Return what the replica measures of itself."""
        state, spool = self.state(), self.spool
        stream = spool.stream
        values: dict[str, float] = {
            "owner": state.role == members.OWNER,
            "caught_up": state.caught_up,
            "epoch": state.epoch,
            "position": state.position,
            "lag_messages": state.lag_messages,
            "lag_bytes": state.lag_bytes,
            "level": spool.replica.level,
            "reads_level": spool.replica.reads,
            "void_total": spool.replica.void_count,
            "appends_total": 0 if stream is None else stream.appends_count,
            "append_seconds_total": 0.0 if stream is None else stream.append_s,
            "append_waits_seconds": spool.append_waits_s(),
            "log_bytes": spool.log_bytes,
            "log_bytes_max": self.config.cluster.log_bytes_max,
            "clock_ahead_seconds": spool.ahead_ms() / 1000,
        }
        present = len(self.ownership.members.present(self._loop.time()))
        samples = [Sample(f"sluicegate_replica_{name}", float(value)) for name, value in values.items()]
        names = self.ownership.names.names
        counts = {
            "sluicegate_replicas": len(names),
            "sluicegate_replicas_present": present,
            "sluicegate_replicas_outdated": len([name for name in names if self._why_it_cannot_read(name)]),
        }
        samples += [Sample(name, count) for name, count in counts.items()]
        samples += [] if spool.trimming is None else spool.trimming.state.samples()
        return samples if self.sites is None else samples + self.sites.samples()

    def state(self) -> ReplicaState:
        """Return what the others are told. For any thread."""
        lag = self.spool.lag
        is_owner = self._role == members.OWNER
        return ReplicaState(
            name=self.config.cluster.replica,
            instance=self._instance,
            role=self._role,
            epoch=self.spool.replica.owner_epoch,
            position=self.spool.replica.read_through,
            lag_messages=0 if is_owner or lag is None else lag.messages,
            lag_bytes=0 if is_owner or lag is None else lag.byte_count,
            caught_up=is_owner or self.spool.is_caught_up(),
            release=VERSION,
            endpoints=tuple(self.endpoints()),
            problem=self._waits()
            or self._conflict()
            or self.spool.held_back()
            or self.spool.problem
            or self.ownership.problem,
            lease_ms=self.config.cluster.lease_ms,
            reads_level=self.spool.replica.reads,
            has_room=self.spool.usage is None or has_room(self.spool.usage),
        )


def _off(ahead_ms: int) -> str:
    return f"is {abs(ahead_ms) // 1000} s {'ahead of' if ahead_ms > 0 else 'behind'} the time of the log"


async def _first_of(*waited: asyncio.Future[Any]) -> None:
    await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
