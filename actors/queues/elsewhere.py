"""A queue of a neighbor broker, as consumers here see it."""

from collections.abc import Callable

from sluicegate.actors.messages.directory import NAMED, QueueHandle, QueueState
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.messaging.clients.rights import ClientRights
from sluicegate.messaging.network.queue_names import QueueHome
from sluicegate.messaging.queues.admission import QueueGate
from sluicegate.messaging.queues.definition import QueueConfig, QueueDefinition


class _StateElsewhere(QueueState):
    """What is known here: the rest is asked where the queue is."""

    def __init__(self, clients: Callable[[], set[str]], *, is_partitioned: bool) -> None:
        self._clients = clients
        self._is_partitioned = is_partitioned

    def clients(self) -> set[str]:
        """Return the names of this broker's clients that consume from it."""
        return self._clients()

    def denial(self, rights: ClientRights | None, user: str, needed: str) -> str:
        """Return nothing: its own broker decides."""
        return ""

    def is_partitioned(self) -> bool:
        """Return whether it is partitioned, as its broker has told."""
        return self._is_partitioned

    def selector_hint(self) -> str:
        """Return nothing: the other consumers are not known here."""
        return ""


def queue_elsewhere(
    home: QueueHome, cell: ActorCell, clients: Callable[[], set[str]], incarnation: int, vpn: str
) -> QueueHandle:
    """Return the handle of a queue of a neighbor. Its gate says nothing of its messages.

    `incarnation` is that of the neighbor's spool, and `vpn` the name of the message VPN there.
    """
    facts = home.facts
    config = QueueConfig(home.name, access_type=facts.access_type, partition_count=facts.partition_count)
    gate = QueueGate(None, usage_bytes_max=0, message_bytes_max=facts.message_bytes_max)
    state = _StateElsewhere(clients, is_partitioned=config.partitioned())
    definition = QueueDefinition(config)
    where = home.output.neighbor
    return QueueHandle(
        home.name, NAMED, cell, gate, True, definition, state, incarnation=incarnation, broker=where, vpn=vpn
    )
