"""The queues of a message VPN by name, with the number of queues of each owner."""

from collections import Counter
from collections.abc import Callable
from typing import TypeVar, final

from sluicegate.actors.messages.directory import TEMPORARY, LocalQueue, QueueExists
from sluicegate.actors.runtime.asks import LoopFuture

T = TypeVar("T")


@final
class QueueTable:
    """The queues of a directory.

    Invariants: the counts are those of the queues in `by_name`, which only this class changes; what is in `making` is
    in it.
    """

    def __init__(self, on_owned: Callable[[str, int], None]) -> None:
        """`on_owned` is called with a user, and how many queues it owns by now; an empty name for no owner."""
        self._on_owned = on_owned
        self.by_name: dict[str, LocalQueue] = {}
        self.making: dict[str, LoopFuture[LocalQueue]] = {}  # those that are not stored yet
        self._deleting: dict[str, LoopFuture[bool]] = {}  # those whose deletion is not stored yet
        self.temporary_count = 0
        self._owned: Counter[str] = Counter()  # by user; empty: no owner

    def put(self, handle: LocalQueue) -> None:
        """Add a queue, or replace its definition."""
        before = self.by_name.get(handle.name)
        if before is not None:
            self._count(before, -1)
        self.by_name[handle.name] = handle
        self._count(handle, 1)

    def remove(self, name: str) -> None:
        """Remove a queue."""
        self._count(self.by_name.pop(name), -1)
        self.making.pop(name, None)

    def begin_deleting(self, name: str) -> LoopFuture[bool]:
        """Return the answer to give when the deletion of a removed queue is stored."""
        deleted = self._deleting[name] = LoopFuture[bool]()

        def forgotten(_: LoopFuture[bool]) -> None:
            if self._deleting.get(name) is deleted:  # else another of its name was created and deleted meanwhile
                del self._deleting[name]

        deleted.then(forgotten)
        return deleted

    def gone(self, name: str, answer: T) -> LoopFuture[T] | T:
        """Return an answer for a queue that does not exist: when its deletion, if recent, is stored."""
        deleted = self._deleting.get(name)
        if deleted is None:
            return answer
        said: LoopFuture[T] = LoopFuture()
        deleted.then(lambda _: said.set(answer))
        return said

    def has(self, handle: LocalQueue) -> bool:
        """Return whether this very queue, whatever its definition by now, is here, and not another of its name."""
        present = self.by_name.get(handle.name)
        return present is not None and present.cell is handle.cell

    def owned_by(self, user: str) -> int:
        """Return how many queues a user owns."""
        return self._owned[user]

    def _count(self, handle: LocalQueue, by: int) -> None:
        owner = handle.definition.config.owner
        self._owned[owner] += by
        if self._owned[owner] == 0:
            del self._owned[owner]
        self._on_owned(owner, self._owned.get(owner, 0))
        if handle.kind == TEMPORARY:
            self.temporary_count += by


def exists_later(made: LoopFuture[LocalQueue]) -> LoopFuture[LocalQueue]:
    """Return the answer to a request to create a queue that exists, or is being created."""
    answer: LoopFuture[LocalQueue] = LoopFuture()

    def tell(done: LoopFuture[LocalQueue]) -> None:
        error = done.error() or QueueExists(done.get().name)
        answer.set_exception((type(error), error, None))

    made.then(tell)
    return answer
