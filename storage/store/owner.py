"""The store of a replica that owns its broker: a commit is in the stream before it is here.

The stream is the log, and this store has a copy of it (`SpoolStore.take`). A commit is appended to the stream, and has
succeeded when a majority of the servers has it; the copy need not be on the disk by then.

Threads. The connection to the servers belongs to an event loop, and a commit blocks its thread. So the loop has a
thread of its own, and the thread that commits waits for it.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, Final, TypeVar, final

from sluicegate.storage.errors import CommitInDoubt, CopyFailed, StorageError, StoreFull
from sluicegate.storage.interface import CommitJob
from sluicegate.storage.log.record import encode_log_record, record_of
from sluicegate.storage.records.cursor import CursorRecord
from sluicegate.storage.replication.log import ReplicatedLog
from sluicegate.storage.replication.messages import decode_clean
from sluicegate.storage.replication.replica import OwnershipLost, Role
from sluicegate.storage.replication.stream import StreamFull
from sluicegate.storage.store.store import SpoolStore

END_S: Final = 3.0
CANCELLATIONS: Final = 3  # of each task, before it is given up
CLOSED_S: Final = 1.0  # an owner that hands over waits for its last message so long

log = logging.getLogger("sluicegate.cluster")

_Result = TypeVar("_Result")


@final
class LoopThread:
    """An event loop on a thread of its own."""

    def __init__(self, *, end_s: float = END_S) -> None:
        """`end_s` is the time that tasks have to end themselves when they are cancelled."""
        self._end_s: Final = end_s
        self._begun: Final[set[Future[Any]]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="replicated log", daemon=True)
        self._lock = threading.Lock()
        self._is_closed = False
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, _Result]) -> _Result:
        """Run a coroutine on the loop, and return what it returns. Raises CancelledError if the loop is closed."""
        return self.begin(coroutine).result()

    async def result_of(self, coroutine: Coroutine[Any, Any, _Result]) -> _Result:
        """Run a coroutine on the loop, and return what it returns: for a coroutine of another loop. Raises as `run`."""
        return await asyncio.wrap_future(self.begin(coroutine))

    def begin(self, coroutine: Coroutine[Any, Any, _Result]) -> Future[_Result]:
        """Have a coroutine run on the loop. Raises CancelledError if the loop is closed."""
        with self._lock:
            if self._is_closed:
                coroutine.close()
                raise CancelledError("the event loop is closed")
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
            self._begun.add(future)
        future.add_done_callback(self._begun.discard)
        return future

    def close(self) -> None:
        """End what runs on the loop, and the thread. May be called twice.

        A task that does not end when it is cancelled is given up: nats-py may swallow a cancellation on Python 3.11.
        Whoever waits for it gets CancelledError.
        """
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            ended = asyncio.run_coroutine_threadsafe(self._end(), self._loop)
        ended.result()
        for future in list(self._begun):
            future.cancel()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for _ in range(CANCELLATIONS):
            if not tasks:
                return
            for task in tasks:
                task.cancel()
            _, tasks = await asyncio.wait(tasks, timeout=self._end_s / CANCELLATIONS)
        if tasks:
            log.warning("%d tasks of a connection to NATS did not end, and are given up", len(tasks))


@final
class OwnedLog:
    """The way of commits: to the stream, and then to the owner's store."""

    def __init__(self, store: SpoolStore, log: ReplicatedLog, loop: LoopThread) -> None:
        """`log` is the owner, and lives on the loop; the store has all records that it read.

        Nothing is raised yet (`ReplicatedLog.raise_level`).
        """
        self._store: Final = store
        self._log: Final = log
        self._loop: Final = loop
        self._out = 0  # number of a record that may be in the stream, and is not in the store; 0: there is none
        self._out_data = b""  # that record
        self._is_in_stream = False  # it is
        self._next = log.replica.next_number()

    def is_in_doubt(self) -> bool:
        """Return whether the next job must be the last one."""
        return self._out != 0

    def next_number(self) -> int:
        """Return the number that the next job must have."""
        return self._out or self._next

    def commit(self, job: CommitJob, check: Callable[[CommitJob, int], None] | None = None) -> int:
        """Append a job to the stream and to the store; return the number of the next one.

        `check` is called with a job that was not sent yet, and the bytes of its record; it may raise StoreFull. While
        no majority answers, it waits. Raises StoreFull: nothing was appended. Raises CommitInDoubt: the record may be
        in the stream, and CopyFailed: it is; the next job must be the same one, and is not appended a second time.
        Raises OwnershipLost, which is a doubt, too: another replica is the owner, and publishers must be told nothing.
        """
        record = record_of(job)
        data = encode_log_record(record)
        if job.number != self.next_number():
            raise ValueError(f"log record {job.number} where {self.next_number()} comes next")
        if self._out and data != self._out_data:
            raise ValueError(f"log record {job.number} is in doubt, and another one came")
        if not self._out and check is not None:
            check(job, len(data))
        if not self._out and not job.uses_reserve:
            self._store.check_room(record, len(data))
        if not self._is_in_stream:
            self._append(job.number, data)
        try:
            self._store.take([(job.number, data)])
        except Exception as error:  # whatever it is: publishers must not be told that the record is not stored
            said = error if isinstance(error, StorageError) else repr(error)
            raise CopyFailed(f"{said}, and the stream has the record already") from error
        self._out, self._out_data, self._is_in_stream = 0, b"", False
        return self.next_number()

    def close(self, clean: bytes) -> None:
        """Append what the next owner has to know, as the last message of this one. See `Replica.close`.

        Nobody is told of it, so an outcome that is not known changes nothing. Raises CommitInDoubt, OwnershipLost,
        StoreFull, StoreFailed: then the next owner may have to begin as after a crash.
        """
        if self._out:
            raise CommitInDoubt(f"log record {self._out} is in doubt")
        if self._log.replica.role is not Role.OWNER:
            raise OwnershipLost("this replica is not the owner of the log")
        try:
            self._loop.begin(self._log.close(clean)).result(CLOSED_S)
        except StreamFull as error:
            raise StoreFull("log", str(error)) from error
        except (TimeoutError, CancelledError) as error:
            raise CommitInDoubt("no majority of the servers has confirmed the last message") from error

    def clean_cursors(self) -> dict[int, CursorRecord] | None:
        """Return the cursors of the owner before this one by partition, None if it has not stopped in order."""
        clean = self._log.replica.clean
        if clean is None:
            return None
        try:
            return decode_clean(clean, "what the last owner of the log left")
        except StorageError as error:
            log.error("%s: this owner begins as after a crash", error)
            return None

    def _append(self, number: int, data: bytes) -> None:
        if self._log.replica.role is not Role.OWNER:
            raise OwnershipLost("this replica is not the owner of the log")
        is_again = self._out != 0
        self._out, self._out_data = number, data
        try:
            self._next = self._loop.run(self._append_in_order(None if is_again else data))
        except StreamFull as error:
            self._out, self._out_data = 0, b""
            raise StoreFull("log", str(error)) from error
        except OwnershipLost:
            raise
        except CancelledError as error:
            raise CommitInDoubt("the replica ends while the outcome is unknown") from error
        except Exception as error:  # what was sent may be stored, whatever went wrong behind it
            raise CommitInDoubt(str(error) if isinstance(error, StorageError) else repr(error)) from error
        self._is_in_stream = True

    async def _append_in_order(self, data: bytes | None) -> int:
        """Append a record, or go on with one for None; return the number of the next.

        On the loop, where the level of the log is raised as well: another thread might look in the midst of that.
        """
        if data is None:
            await self._log.append_again()
        else:
            await self._log.append(data)
        return self._log.replica.next_number()
