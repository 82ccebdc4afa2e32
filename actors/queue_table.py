"""The queues of a message VPN by their names, with how many of them are whose."""

from collections import Counter
from typing import final

from actors.directory_messages import QueueHandle
from actors.futures import LoopFuture
from actors.queue_assembly import TEMPORARY


@final
class QueueTable:
    """What the directory of queues has.

    Invariants: the counts are those of what `by_name` holds, which is changed here only; what is in `making` is there.
    """

    def __init__(self) -> None:
        self.by_name: dict[str, QueueHandle] = {}
        self.making: dict[str, LoopFuture[QueueHandle]] = {}  # those that are not in the store yet
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
