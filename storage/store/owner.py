"""The store of a replica that owns its broker: a commit is in the stream before it is here.

The stream is the log, and this store has a copy of it (`SpoolStore.take`). A commit is appended to the stream, and has
succeeded when a majority of the servers has it; the copy need not be on the disk by then.

Threads. The connection to the servers belongs to an event loop, and a commit blocks its thread. So the loop has a
thread of its own, and the thread that commits waits for it.
"""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError
from typing import Any, Final, TypeVar, final

from sluicegate.storage.errors import CommitInDoubt, StoreDamaged, StoreFailed, StoreFull
from sluicegate.storage.interface import CommitJob
from sluicegate.storage.log.record import encode_log_record, record_of
from sluicegate.storage.replication.log import ReplicatedLog
from sluicegate.storage.replication.replica import OwnershipLost, Role
from sluicegate.storage.replication.stream import StreamFull, StreamRefused
from sluicegate.storage.store.store import SpoolStore

_Result = TypeVar("_Result")


@final
class LoopThread:
    """An event loop on a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="replicated log", daemon=True)
        self._lock = threading.Lock()
        self._is_closed = False
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, _Result]) -> _Result:
        """Run a coroutine on the loop, and return what it returns. Raises CancelledError if the loop is closed."""
        with self._lock:
            if self._is_closed:
                coroutine.close()
                raise CancelledError("the event loop is closed")
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        return future.result()

    def close(self) -> None:
        """End what runs on the loop, and the thread. May be called twice."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            ended = asyncio.run_coroutine_threadsafe(self._end(), self._loop)
        ended.result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        tasks = [each for each in asyncio.all_tasks() if each is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@final
class OwnedLog:
    """The way of commits: to the stream, and then to the owner's store."""

    def __init__(self, store: SpoolStore, log: ReplicatedLog, loop: LoopThread) -> None:
        """`log` is the owner, and lives on the loop; the store has all records that it read."""
        self._store: Final = store
        self._log: Final = log
        self._loop: Final = loop
        self._out = 0  # number of a record that may be in the stream, and is not in the store; 0: there is none
        self._out_data = b""  # that record
        self._is_in_stream = False  # it is

    def next_number(self) -> int:
        """Return the number that the next job must have."""
        return self._out or self._log.replica.next_number()

    def commit(self, job: CommitJob) -> int:
        """Append a job to the stream and to the store; return the number of the next one.

        While no majority answers, it waits. Raises StoreFull: nothing was appended. Raises CommitInDoubt: the record
        is in the stream, or may be; the next job must be the same one, and is not appended a second time. Raises
        OwnershipLost: another replica is the owner, and publishers must be told nothing.
        """
        record = record_of(job)
        data = encode_log_record(record)
        if job.number != self.next_number():
            raise ValueError(f"log record {job.number} where {self.next_number()} comes next")
        if self._out and data != self._out_data:
            raise ValueError(f"log record {job.number} is in doubt, and another one came")
        if not self._out and not job.uses_reserve:
            self._store.check_room(record, len(data))
        if not self._is_in_stream:
            self._append(job.number, data)
        try:
            self._store.take(job.number, data)
        except StoreDamaged:
            raise
        except (StoreFull, StoreFailed) as error:
            raise CommitInDoubt(f"{error}, and the stream has the record already") from error
        self._out, self._out_data, self._is_in_stream = 0, b"", False
        return self.next_number()

    def _append(self, number: int, data: bytes) -> None:
        if self._log.replica.role is not Role.OWNER:
            raise OwnershipLost("this replica is not the owner of the log")
        is_again = self._out != 0
        self._out, self._out_data = number, data
        try:
            if is_again:
                self._loop.run(self._log.append_again())
            else:
                self._loop.run(self._log.append(data))
        except StreamFull as error:
            self._out, self._out_data = 0, b""
            raise StoreFull("map", str(error)) from error
        except StreamRefused as error:
            raise CommitInDoubt(str(error)) from error
        except CancelledError as error:
            raise CommitInDoubt("the replica ends while the outcome is unknown") from error
        self._is_in_stream = True
