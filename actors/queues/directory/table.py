"""The queues of a message VPN by their names, with how many of them are whose."""

from collections import Counter
from typing import TypeVar, final

from sluicegate.actors.messages.directory import TEMPORARY, QueueExists, QueueHandle
from sluicegate.actors.runtime.asks import LoopFuture

T = TypeVar("T")


@final
class QueueTable:
    """What the directory of queues has.

    Invariants: the counts are those of what `by_name` holds, which is changed here only; what is in `making` is there.
    """

    def __init__(self) -> None:
        self.by_name: dict[str, QueueHandle] = {}
        self.making: dict[str, LoopFuture[QueueHandle]] = {}  # those that are not in the store yet
        self._deleting: dict[str, LoopFuture[bool]] = {}  # those that the store has yet to forget
        self.temporary_count = 0
        self._owned: Counter[str] = Counter()  # by user; empty: nobody's

    def put(self, handle: QueueHandle) -> None:
        """Add a queue, or put its new definition in the place of the one before."""
        before = self.by_name.get(handle.name)
        if before is not None:
            self._count(before, -1)
        self.by_name[handle.name] = handle
        self._count(handle, 1)

    def remove(self, name: str) -> None:
        """Take a queue out."""
        self._count(self.by_name.pop(name), -1)
        self.making.pop(name, None)

    def begin_deleting(self, name: str) -> LoopFuture[bool]:
        """Return what is to be answered when the store has forgotten a queue that was taken out."""
        deleted = self._deleting[name] = LoopFuture[bool]()

        def forgotten(_: LoopFuture[bool]) -> None:
            if self._deleting.get(name) is deleted:  # else another of its name was made and deleted meanwhile
                del self._deleting[name]

        deleted.then(forgotten)
        return deleted

    def gone(self, name: str, answer: T) -> LoopFuture[T] | T:
        """Return an answer by which there is no such queue: of one that was deleted just now, when the store knows."""
        deleted = self._deleting.get(name)
        if deleted is None:
            return answer
        said: LoopFuture[T] = LoopFuture()
        deleted.then(lambda _: said.set(answer))
        return said

    def has(self, handle: QueueHandle) -> bool:
        """Return whether a queue, whatever its definition by now, is here, and not another with its name."""
        present = self.by_name.get(handle.name)
        return present is not None and present.cell is handle.cell

    def owned_by(self, user: str) -> int:
        """Return how many queues a user owns."""
        return self._owned[user]

    def _count(self, handle: QueueHandle, by: int) -> None:
        owner = handle.definition.config.owner
        self._owned[owner] += by
        if self._owned[owner] == 0:
            del self._owned[owner]
        if handle.kind == TEMPORARY:
            self.temporary_count += by


def exists_later(made: LoopFuture[QueueHandle]) -> LoopFuture[QueueHandle]:
    """Return the answer to who wants to make what is there, or being made: that it exists, or why it was not made."""
    answer: LoopFuture[QueueHandle] = LoopFuture()

    def tell(done: LoopFuture[QueueHandle]) -> None:
        error = done.error() or QueueExists(done.get().name)
        answer.set_exception((type(error), error, None))

    made.then(tell)
    return answer
