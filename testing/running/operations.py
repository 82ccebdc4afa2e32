"""What tests ask of a broker: queues, messages in them, clients and metrics. It answers with plain values."""

from collections.abc import Mapping
from typing import Final

from sluicegate.actors.messages.directory import FindQueue, LocalQueue
from sluicegate.actors.messages.partitions import BrowsedMessage
from sluicegate.gateway.node.node import Node
from sluicegate.gateway.observability.metrics.table import METRICS
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.operations.queues.messages import browse_page
from sluicegate.gateway.views.errors import QueueNotFound
from sluicegate.gateway.views.queues.selections import FIELDS_OF_DELETE, IDS_MAX, selection_from_dict, selector_of
from sluicegate.messaging.message.headers import Headers
from sluicegate.messaging.message.vpn import DEFAULT_VPN
from sluicegate.testing.messages import QueueState, StoredMessage

BROWSED_MAX: Final = 100_000  # of one queue
NO_HEADERS: Final = Headers()
LABELS: Final = {metric.name: metric.labels for metric in METRICS}


class HostOperations:
    """Carries out what tests ask of a node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._node_operations = NodeOperations(node)

    async def create_queue(self, name: str, attributes: Mapping[str, object], durable: bool, vpn: str) -> None:
        """Create a queue. Raises AlreadyExists, QueueInvalid and Refused."""
        await self._of(vpn).create_queue({"name": name, **attributes}, durable=durable)

    async def delete_queue(self, name: str, vpn: str) -> None:
        """Delete a queue. Raises NotFound and Refused."""
        await self._of(vpn).delete_queue(name)

    async def purge_queue(self, name: str, vpn: str) -> int:
        """Remove messages that no consumer holds; return how many. Raises NotFound."""
        return await self._of(vpn).purge_queue(name)

    async def queue_names(self, vpn: str) -> list[str]:
        """Return the names of all queues, sorted."""
        return sorted(await self._of(vpn).queue_names())

    async def queue_state(self, name: str, vpn: str) -> QueueState:
        """Return what a queue holds. Raises NotFound."""
        view = await self._of(vpn).show_queue(name)
        return QueueState(
            name=name,
            message_count=view.spooled_count,
            ready_count=view.ready_count,
            unacked_count=view.unacked_count,
            consumers=tuple(flow.client for flow in view.flows),
            subscriptions=view.subscriptions,
            accepted_total=view.accepted_total,
            delivered_total=view.delivered_total,
            redelivered_total=view.redelivered_total,
            settled_total=view.settled_total,
            attributes=dict(view.config.to_dict()),
        )

    async def browse(self, name: str, selector: str, vpn: str) -> list[StoredMessage]:
        """Return the messages of a queue, oldest first, at most `BROWSED_MAX`. Raises NotFound and QueueInvalid."""
        handle: LocalQueue | None = await self._node.vpns[vpn].queues.ask(FindQueue(name))
        if handle is None:
            raise QueueNotFound(name)
        wanted = selector_of(selector, self._node.services.selectors) if selector else None
        browsed = await browse_page(handle, partition=None, after=0, limit=BROWSED_MAX, selector=wanted)
        return [stored_message(each) for each in browsed]

    async def drain(self, name: str, vpn: str) -> list[StoredMessage]:
        """Take the messages out of a queue that no consumer holds, and return them, oldest first. Raises NotFound.

        At most `BROWSED_MAX` of them. Beside consumers each is taken by itself, for the answer about many says how many
        were taken, and not which.
        """
        free = {_id_of(each): each for each in await self.browse(name, "", vpn) if not each.is_held}
        at_once = 1 if (await self._of(vpn).show_queue(name)).flows else IDS_MAX
        ids, are_some_kept = list(free), False
        for first in range(0, len(ids), at_once):
            selection = selection_from_dict({"ids": ids[first : first + at_once]}, FIELDS_OF_DELETE)
            taken = await self._of(vpn).take_messages(name, "delete", selection)
            if at_once == 1 and not taken.done_count:
                del free[ids[first]]
            are_some_kept = are_some_kept or bool(taken.kept)
        if are_some_kept:  # a consumer has come meanwhile
            for message in await self.browse(name, "", vpn):
                free.pop(_id_of(message), None)
        return list(free.values())

    async def client_names(self, vpn: str) -> list[str]:
        """Return the names of the connected clients, sorted; once for each connection."""
        return sorted(await self._of(vpn).client_names())

    async def metric(self, name: str, labels: Mapping[str, str]) -> float:
        """Return the sum of a metric's samples with these labels; `vpn` is one. Raises LookupError for no metric."""
        if name not in LABELS:
            raise LookupError(f"there is no metric {name!r}; docs/operate/metrics.md lists them")
        total = 0.0
        for sample in await self._node_operations.metrics_snapshot():
            if sample.name == name:
                found = {**dict(zip(LABELS[name], sample.labels, strict=False)), "vpn": sample.vpn}
                if labels.items() <= found.items():
                    total += sample.value
        return total

    def _of(self, vpn: str) -> NodeOperations:
        return self._node_operations if vpn == DEFAULT_VPN else self._node_operations.in_vpn(vpn)


def _id_of(message: StoredMessage) -> str:
    return f"{message.partition}:{message.sequence}"


def stored_message(message: BrowsedMessage) -> StoredMessage:
    """Return a message that was browsed, as a plain value."""
    batch, row = message.batch, message.row
    headers = batch.headers_of(row) or NO_HEADERS
    return StoredMessage(
        payload=bytes(batch.payloads()[row]),
        topic=batch.topic_of(row),
        key=headers.partition_key,
        priority=headers.priority,
        properties=tuple(headers.user_properties or ()),
        content_type=headers.content_type,
        message_id=headers.message_id,
        correlation=headers.correlation,
        reply_to=headers.reply_to,
        received_ms=batch.received_ms,
        expires_at_ms=headers.expires_at_ms,
        delivery_count=max(message.delivery_count + message.in_flight, 1 if message.redelivered else 0),
        is_held=message.in_flight,
        partition=message.partition_number,
        sequence=message.sequence,
        dead_reason="" if headers.dead is None else headers.dead.reason,
        dead_queue="" if headers.dead is None else headers.dead.queue,
    )
