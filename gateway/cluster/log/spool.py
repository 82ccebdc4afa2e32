"""The spool of one replica: a copy of the log that follows the stream, and on which the owner commits.

It has a thread of its own, with an event loop for the connection to the servers: a checkpoint may take long, and must
hold up neither clients nor the lease.
"""

import asyncio
import logging
import random
import secrets
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Any, Final, final

from sluicegate.gateway.build import VERSION
from sluicegate.gateway.cluster.background import TaskEnded, watched
from sluicegate.gateway.cluster.log.clock import LogTime
from sluicegate.gateway.cluster.log.servers import AGAIN_S, Servers
from sluicegate.gateway.cluster.log.settings_watch import SettingsWatch
from sluicegate.gateway.cluster.log.trimming import LogTrimming, begin_anew
from sluicegate.gateway.cluster.membership.level import LogLevel
from sluicegate.gateway.config.model import Config
from sluicegate.gateway.node.node import open_store
from sluicegate.gateway.views.errors import CannotStart
from sluicegate.storage.environment.file_kinds import is_there
from sluicegate.storage.environment.file_rights import make_folder
from sluicegate.storage.environment.folder_lock import DATA_FILE
from sluicegate.storage.errors import StorageError
from sluicegate.storage.interface import Store, StoreUsage, Table
from sluicegate.storage.replication.jetstream import JetStream
from sluicegate.storage.replication.log import ReplicatedLog
from sluicegate.storage.replication.ownership.clock import elapsed_s
from sluicegate.storage.replication.replica import Append, Record, Replica, Role
from sluicegate.storage.replication.stream import Bounds, StoredMessage, Stream, StreamRefused, StreamUnavailable
from sluicegate.storage.replication.trimming.plan import Hold, has_to_begin_anew
from sluicegate.storage.replication.trimming.snapshots import Snapshots
from sluicegate.storage.store.owner import LoopThread, OwnedLog
from sluicegate.storage.store.replicated import LogRoom, ReplicatedStore
from sluicegate.storage.store.standby import Lag, Standby
from sluicegate.storage.store.store import SpoolStore

FEW: Final = 64  # messages of one read; after fewer a standby lets some more gather
GATHER_S: Final = 0.02
MEASURE_S: Final = 1.0  # between two looks at how far the log goes
STALE_S: Final = 4.0  # a standby that has not measured for so long is busy, and cannot take over at once
BEHIND_MAX: Final = 1_000  # messages; a standby that is further behind does not try to take over
BEHIND_BYTES_MAX: Final = 16 << 20

log = logging.getLogger("sluicegate.cluster")


@final
class TimedStream(Stream):
    """A stream that tells when an append was sent that is stored: it shows that the owner reaches the log."""

    def __init__(self, stream: JetStream, *, appended: Callable[[float], None], is_waiting: Callable[[], bool]) -> None:
        """`is_waiting` returns whether the outcome of an append is unknown."""
        self._stream: Final = stream
        self._is_waiting: Final = is_waiting
        self._appended: Final = appended
        self.held_back = ""  # why nothing may be appended; empty if it may
        self.appended_bytes = 0  # since `measured`
        self.appends_count = 0
        self.append_s = 0.0  # of all that are stored, together
        self.waits_since_s = 0.0  # when the append was sent whose outcome is not known, by the lease's clock; 0: none

    async def append(self, append: Append) -> int | None:
        """Append a message. See `Stream.append`."""
        if self.held_back:
            raise StreamUnavailable(self.held_back)
        sent_s = elapsed_s()
        if not (self.waits_since_s and self._is_waiting()):
            self.waits_since_s = sent_s
        try:
            sequence = await self._stream.append(append)
        except StreamRefused:  # an answer, if not the one that was hoped for
            self.waits_since_s = 0.0
            raise
        if sequence is not None:
            self.waits_since_s = 0.0
            self.appends_count += 1
            self.appended_bytes += len(append.data)
            self.append_s += elapsed_s() - sent_s
            self._appended(sent_s)
        return sequence

    async def at(self, sequence: int) -> bytes | None:
        """Return a message. See `Stream.at`."""
        return await self._stream.at(sequence)

    async def bounds(self) -> Bounds:
        """Return what the stream has. See `Stream.bounds`."""
        return await self._stream.bounds()

    async def read(self, after: int, wait_s: float) -> list[StoredMessage]:
        """Return messages. See `Stream.read`."""
        return await self._stream.read(after, wait_s)

    async def trim(self, before: int) -> None:
        """Delete messages. See `Stream.trim`."""
        await self._stream.trim(before)

    async def end_read(self) -> None:
        """Have a `read` that waits return now."""
        await self._stream.end_read()


@final
class ReplicaSpool:
    """The spool of one replica, from its start to its end. Its methods are for the event loop of the process."""

    def __init__(
        self,
        config: Config,
        *,
        appended: Callable[[float], None],
        is_maker: Callable[[], bool],
        hold_revoked: Callable[[Hold], None],
        level_raised: Callable[[int], None],
        lost: Callable[[str], None],
        task_ended: TaskEnded,
    ) -> None:
        """`appended` is called with the time at which an append was sent that is stored.

        For `is_maker` and `hold_revoked` see `LogTrimming`, for `level_raised` see `LogLevel`. `lost` is told, on any
        thread, why the replica cannot be the owner, and `task_ended` of a task with an error. The others are called on
        the spool's thread.
        """
        self._config: Final = config
        self._appended: Final = appended
        self._is_maker: Final = is_maker
        self._hold_revoked: Final = hold_revoked
        self._level_raised: Final = level_raised
        self._lost: Final = lost
        self._task_ended: Final = task_ended
        self._thread: Final = LoopThread()
        self._servers: Final = Servers(config.node.name, config.cluster)
        self._time: Final = LogTime()
        self._store: SpoolStore | None = None
        self._following: Future[None] | None = None
        self._stops_following = False
        self._rng: Final = random.Random()
        self.receives = False  # it is this replica that keeps the log of a standby site short
        self._log_ahead_ms = 0  # of this machine's wall clock; measured when the replica becomes the owner
        self._is_closed = False
        self._is_resumed = False
        self._is_owned = False  # a node commits
        self.replica: Final = Replica(config.cluster.replica, VERSION)
        self.stream: TimedStream | None = None
        self.level: LogLevel | None = None
        self.trimming: LogTrimming | None = None
        self.lag: Lag | None = None  # as it was measured last
        self.usage: StoreUsage | None = None  # of the store here, as it was measured last
        self._measured_bytes = 0  # of the stream
        self._measured_s = float("-inf")  # when a standby measured last how far it is
        self.problem = ""  # why the log cannot be read now

    async def open(self, generation: int = 0) -> None:
        """Connect to the servers, however long that takes, and open the store. Raises CannotStart.

        For the generation see `stream_name`.
        """
        self._servers.generation = generation
        await self._thread.result_of(self._servers.connect())
        store = self._store = await self._open_store()
        self.stream = TimedStream(
            self._stream_of_log(),
            appended=self._appended,
            is_waiting=self.replica.is_waiting,
        )
        self._log = ReplicatedLog(self.replica, self.stream, wall_ms=self._wall_ms, take=self._take, rng=self._rng)
        self.level = LogLevel(
            self._config.node.name,
            self._servers.client,
            self.replica,
            raise_level=self._raise_level,
            raised=self._level_raised,
            lost=self._lost,
        )
        self.trimming = LogTrimming(
            self._config,
            self._servers.client,
            store,
            self.stream,
            self.replica,
            run=self._thread.run,
            generation=generation,
            trims=lambda: self.receives or self.replica.role is Role.OWNER,
            is_maker=self._is_maker,
            hold_revoked=self._hold_revoked,
        )
        await self._say_level(self.level)
        self._begin("level of the log", self.level.keep())
        self._begin("trims and snapshots", self.trimming.keep_short())
        watch = SettingsWatch(self._servers, self._config.cluster.copies, lambda text: log.error("%s", text))
        self._begin("settings of the servers", watch.keep_looking(self._hold_back))

    def _begin(self, name: str, work: Coroutine[Any, Any, None]) -> Future[None]:
        task = self._thread.begin(work)
        watched(name, task, self._task_ended)
        return task

    async def _open_store(self) -> SpoolStore:
        """Open the store, as a copy of the stream's log; a new one begins with that, or with a snapshot."""
        folder = self._config.data.path
        store = open_store(self._config, is_copy=True) if is_there(folder / DATA_FILE) else None
        try:
            if store is None:
                begin = await self._thread.result_of(self._servers.prepare(secrets.randbits(64)))
                if begin is None:
                    await self._begin_anew(None)
                store = open_store(self._config, incarnation=None if begin is None else begin.incarnation, is_copy=True)
            else:
                begin = await self._thread.result_of(
                    self._servers.prepare(store.incarnation if store.last_number == 0 else None)
                )
                if begin is not None and begin.incarnation != store.incarnation:
                    text = f"the spool in {folder} is not a copy of the log of broker {begin.broker!r}"
                    raise CannotStart(text, advice="Another data folder: --data DIR. A new one takes over the log.")
                if begin is None and has_to_begin_anew(await self._first_sequence(), store.last_number):
                    store.close()
                    await self._begin_anew(store.incarnation)
                    store = open_store(self._config, is_copy=True)
            self._standby = Standby(store, self.replica)
        except StorageError as error:
            if store is not None:
                store.close()
            raise CannotStart(f"the data folder {folder} cannot be used: {error}") from None
        except BaseException:
            if store is not None:
                store.close()
            raise
        return store

    def _hold_back(self, reason: str) -> None:
        assert self.stream is not None
        self.stream.held_back = reason

    async def _say_level(self, level: LogLevel) -> None:
        """Say what this replica reads, before it reads: so no owner raises the level over it."""
        try:
            await self._thread.result_of(level.say())
        except StorageError as error:
            raise CannotStart(f"what this replica reads cannot be written: {error}") from None

    async def _begin_anew(self, incarnation: int | None) -> None:
        snapshots = Snapshots(self._servers.client, self._config.node.name, incarnation, self._servers.generation)
        first = await self._first_sequence()
        folder = self._config.data.path
        await asyncio.to_thread(make_folder, folder)
        while True:
            try:
                await asyncio.to_thread(begin_anew, snapshots, first, folder, self._thread.run)
                return
            except StreamUnavailable as error:
                log.info("%s; trying again", error)
            await asyncio.sleep(AGAIN_S)

    async def _first_sequence(self) -> int:
        stream = self._stream_of_log()
        while True:
            try:
                return (await self._thread.result_of(stream.bounds())).first
            except StreamUnavailable as error:
                log.info("%s; trying again", error)
            await asyncio.sleep(AGAIN_S)

    def _stream_of_log(self) -> JetStream:
        return JetStream(self._servers.client, self._config.node.name, self._servers.generation)

    @property
    def is_cut_off(self) -> bool:
        """Whether the connection to the servers was closed for good. See `Ownership.is_cut_off`."""
        return not self._is_closed and self._servers.is_closed

    # --- a standby ---

    def follow(self) -> None:
        """Begin to read the log into the store."""
        self._stops_following = False
        self._following = self._begin("copy of the log", self._follow())

    async def stop_following(self) -> None:
        """Read no more; nothing that was read is lost."""
        following, self._following = self._following, None
        if following is None or self.stream is None:
            return
        self._stops_following = True
        await self._thread.result_of(self.stream.end_read())
        with suppress(Exception):  # `task_ended` was told
            await asyncio.wrap_future(following)

    def is_caught_up(self) -> bool:
        """Return whether the store has nearly all of the log: it can take over at once. For any thread."""
        lag = self.lag
        if lag is None or self.problem or time.monotonic() - self._measured_s > STALE_S:
            return False
        return lag.messages <= BEHIND_MAX and lag.byte_count <= BEHIND_BYTES_MAX

    async def _follow(self) -> None:
        assert self.stream is not None
        while not self._stops_following:
            try:
                if not self._is_resumed:
                    await self._standby.resume(self.stream)
                    self._is_resumed = True
                found = await self._log.read()
                self._time.read(self.replica.time_ms, self.replica.read_through, _elapsed_ms())
                if 0 < found < FEW:  # else each record would be a request of its own
                    await asyncio.sleep(GATHER_S)
                if time.monotonic() - self._measured_s >= MEASURE_S:
                    self.lag = await self._standby.lag(self.stream)
                    await self._measure(self.stream)
                    self._measured_s = time.monotonic()
                    self._time.ends_with(self.replica.read_through + self.lag.messages, _elapsed_ms())
                self.problem = ""
            except (StreamUnavailable, StreamRefused) as error:
                if not self.problem:
                    log.warning("the log cannot be read; trying again: %s", error)
                self.problem = str(error)
                await asyncio.sleep(AGAIN_S)

    async def _measure(self, stream: TimedStream) -> None:
        before = stream.appended_bytes
        self._measured_bytes = (await stream.bounds()).byte_count
        stream.appended_bytes -= before
        if self._store is not None:
            self.usage = self._store.usage()

    async def _keep_measuring(self, stream: TimedStream) -> None:
        while not self._is_closed:
            with suppress(StorageError):
                await self._measure(stream)
            await asyncio.sleep(MEASURE_S)

    @property
    def log_bytes(self) -> int:
        """The size of the stream, as it was measured last, with what was appended since. For any thread."""
        return self._measured_bytes + (0 if self.stream is None else self.stream.appended_bytes)

    def _take(self, records: Sequence[Record]) -> None:
        self._standby.take(records)

    def owner_rows(self) -> list[tuple[bytes, bytes]]:
        """Return the rows that name the queue of each partition. For any other thread than the spool's; it blocks."""
        store = self._store
        assert store is not None

        async def read() -> list[tuple[bytes, bytes]]:  # on the thread that writes the store
            return list(store.recover().tables[Table.OWNERS])

        return self._thread.run(read())

    # --- an owner ---

    async def take_over(self, epoch: int) -> None:
        """Become the owner of the log. Raises OwnershipLost, and what reading raises."""
        self.problem = ""
        self._log_ahead_ms = self.ahead_ms()  # before the first message that it writes: the log's time never goes back
        await self._thread.result_of(self._log.take_over(epoch))

    def held_back(self) -> str:
        """Return why nothing may be appended to the log; empty if it may. For any thread."""
        return "" if self.stream is None else self.stream.held_back

    def append_waits_s(self) -> float:
        """Return how long an append has waited for a majority of the servers; 0: none waits. For any thread."""
        since_s = 0.0 if self.stream is None else self.stream.waits_since_s
        # One whose answer was lost may have been found where it belongs.
        return elapsed_s() - since_s if since_s and self.replica.is_waiting() else 0.0

    def step_down(self) -> None:
        """Be a standby again, after a `take_over` that raised."""
        self.replica.step_down()

    def owned(self, incarnation: int = 0) -> Store:
        """Return the store on which the owner commits.

        `incarnation` is what clients see, 0: that of the log.
        """
        assert self._store is not None
        assert self.stream is not None
        self._begin("size of the log", self._keep_measuring(self.stream))
        room = LogRoom(self._config.cluster.log_bytes_max, lambda: self.log_bytes)
        owned = OwnedLog(self._store, self._log, self._thread)
        self._is_owned = True
        return ReplicatedStore(self._store, owned, room, lost=self._lost, incarnation=incarnation)

    async def _raise_level(self, level: int) -> bool:
        return self._is_owned and await self._log.raise_level(level)

    def ahead_ms(self) -> int:
        """Return how far this machine's wall clock is ahead of the time of the log. See `LogTime.ahead_ms`."""
        return self._time.ahead_ms(time.time_ns() // 1_000_000, _elapsed_ms())

    async def hand_over_to(self, site: str) -> None:
        """Append that this site gives the broker up. Nothing is committed any more. Raises StorageError."""
        await self._thread.result_of(self._log.hand_over_to(site))

    # --- the end ---

    async def close(self) -> None:
        """End what is under way, and release the files. An append whose outcome is not known stays in doubt."""
        self._is_closed = True
        await self.stop_following()
        with suppress(CancelledError):
            await self._thread.result_of(self._servers.close())
        await asyncio.to_thread(self._thread.close)
        if self._store is not None:
            self._store.close()

    def abandon(self) -> None:
        """End every wait for the servers: commits that are under way are in doubt. May be called twice."""
        self._thread.close()

    def _wall_ms(self) -> int:
        return time.time_ns() // 1_000_000 - self._log_ahead_ms


def _elapsed_ms() -> int:
    return int(elapsed_s() * 1000)
