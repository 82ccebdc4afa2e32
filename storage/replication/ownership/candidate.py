"""One replica's part in the ownership of its broker: does what its lease says, over a bucket that may be away.

Nothing here is cancelled to be ended: nats-py may swallow a cancellation on Python 3.11.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import assert_never, final

from sluicegate.storage.errors import StorageError
from sluicegate.storage.replication.ownership.keys import Bucket
from sluicegate.storage.replication.ownership.lease import Lease, Put, Read, Stopped, Taken, Wait
from sluicegate.storage.replication.stream import StreamUnavailable


@final
class Candidate:
    """A replica that wants to be the owner, as often as its turn comes."""

    def __init__(
        self,
        lease: Lease,
        bucket: Bucket,
        broker: str,
        *,
        elapsed_s: Callable[[], float],
        is_caught_up: Callable[[], bool],
        changed: Callable[[Taken | Stopped], None],
        failed: Callable[[StorageError], None],
    ) -> None:
        """`changed` is called with each change of ownership, and must act at once.

        `failed` is called when the bucket refuses a request, its key cannot be read, or no request was answered for
        the length of a lease: an operator has to help.
        """
        self._lease = lease
        self._bucket = bucket
        self._broker = broker
        self._elapsed_s = elapsed_s
        self._is_caught_up = is_caught_up
        self._changed = changed
        self._failed = failed
        self._is_closed = False
        self._woken = asyncio.Event()
        self._answered_s = elapsed_s()  # when a request was answered last

    async def run(self) -> None:
        """Watch, take and renew the key until `close`."""
        while not self._is_closed:
            now_s = self._elapsed_s()
            self._note(self._lease.tick(now_s))
            step = self._lease.next(now_s, is_caught_up=self._is_caught_up())
            match step:
                case Wait():
                    await self._wait(step.until_s - now_s)
                case Read():
                    await self._read(self._lease.answer_within_s(now_s))
                case Put():
                    await self._put(step, self._lease.answer_within_s(now_s))
                case _:
                    assert_never(step)

    def close(self) -> None:
        """End `run`, after the request that is out. A key that this replica has is left to the lease of the others."""
        self._is_closed = True
        self._woken.set()

    def hand_over(self, successor: str) -> None:
        """Stop being the owner, and let another replica take over at once. See `Lease.hand_over`."""
        self._note(self._lease.hand_over(successor, self._elapsed_s()))
        self._woken.set()

    def release(self) -> None:
        """Stop being the owner, and let whichever replica comes take over at once. See `Lease.release`."""
        self._note(self._lease.release(self._elapsed_s()))
        self._woken.set()

    def give_up(self, reason: str) -> None:
        """Stop being the owner because the log says so. See `Lease.give_up`."""
        self._note(self._lease.give_up(reason))
        self._woken.set()

    def look(self) -> None:
        """Read the key now: the owner is about to hand over to this replica. See `Lease.look`."""
        self._lease.look()
        self._woken.set()

    async def _wait(self, for_s: float) -> None:
        self._woken.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(for_s):
                await self._woken.wait()

    async def _read(self, within_s: float) -> None:
        try:
            key = await self._bucket.read(self._broker, within_s)
        except StorageError as error:
            self._report(error)
            change = self._lease.read_failed(self._elapsed_s())
        else:
            self._answered_s = self._elapsed_s()
            change = self._lease.read(key, self._answered_s)
        self._note(change)

    async def _put(self, put: Put, within_s: float) -> None:
        revision: int | None = None
        try:
            revision = await self._bucket.put(self._broker, put.holder, put.expected, within_s)
        except StorageError as error:
            self._report(error)
        else:
            self._answered_s = self._elapsed_s()
        now_s = self._elapsed_s()
        self._note(self._lease.unconfirmed(now_s) if revision is None else self._lease.stored(revision, now_s))

    def _report(self, error: StorageError) -> None:
        silent_s = self._elapsed_s() - self._answered_s
        if not isinstance(error, StreamUnavailable) or silent_s > self._lease.times.lease_s:
            self._failed(error)

    def _note(self, change: Taken | Stopped | None) -> None:
        if change is not None:
            self._changed(change)
