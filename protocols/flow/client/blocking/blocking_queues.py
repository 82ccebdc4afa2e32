"""Provisioning without asyncio: `queues`, on the loop in the client's thread."""

from collections.abc import Mapping

from sluicegate.protocols.flow.client.aio.queues import Queue, Queues
from sluicegate.protocols.flow.client.blocking.loop_thread import LoopThread


class BlockingQueues:
    """`Queues`, without asyncio."""

    def __init__(self, thread: LoopThread, queues: Queues) -> None:
        self._thread = thread
        self._queues = queues

    def create(
        self, name: str = "", attributes: Mapping[str, object] | None = None, *, durable: bool | None = None
    ) -> Queue:
        """As `Queues.create`."""
        return self._thread.run(self._queues.create(name, attributes, durable=durable))

    def change(self, name: str, attributes: Mapping[str, object]) -> Queue:
        """As `Queues.change`."""
        return self._thread.run(self._queues.change(name, attributes))

    def delete(self, name: str) -> None:
        """As `Queues.delete`."""
        self._thread.run(self._queues.delete(name))
