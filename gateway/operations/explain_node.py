"""The questions of `explain`, asked of a running node."""

from dataclasses import replace
from typing import TYPE_CHECKING

from sluicegate.actors.messages.directory import FindQueue, QueueHandle
from sluicegate.actors.messages.explain_messages import ExplainKey
from sluicegate.gateway.operations.explain import explain_publish
from sluicegate.gateway.operations.queue_questions import ask_queue, overview_of
from sluicegate.gateway.views.errors import QueueNotFound
from sluicegate.gateway.views.explanations import KeyExplanation, PublishExplanation
from sluicegate.gateway.views.queues import PartitionStatus
from sluicegate.gateway.views.specimen import Specimen
from sluicegate.messaging.message.partitioning import key_hash
from sluicegate.messaging.partitions.explain import KeyStanding
from sluicegate.messaging.partitions.wait_reason import WaitReason
from sluicegate.messaging.topics.syntax import (
    TopicError,
    check_published_topic,
    check_topic_name,
    is_queue_topic,
    queue_topic,
)

if TYPE_CHECKING:
    from sluicegate.gateway.node.vpn import MessageVpn


async def publish_explained(
    vpn: "MessageVpn", message: Specimen, queue: str | None, *, wall_ms: int
) -> PublishExplanation:
    """Explain a publish to a topic, or to a queue when one is named. Raises QueueNotFound."""
    if queue is not None:
        await _find(vpn, queue)
        message = replace(message, topic=queue_topic(queue))
    rights = vpn.clients.rights_of(message.client_username, message.client_id)
    problem = "" if queue is not None else _topic_problem(message.topic)
    return explain_publish(vpn.space, message, rights, topic_problem=problem, wall_ms=wall_ms)


async def key_explained(vpn: "MessageVpn", queue: str, key: str) -> KeyExplanation:
    """Explain where a key of a queue stands. Raises QueueNotFound."""
    handle = await _find(vpn, queue)
    hashed = key_hash(key)
    number = handle.target.partition_of(hashed)
    standing: KeyStanding = await ask_queue(handle, ExplainKey(key, number))
    overview = await overview_of(handle)
    status, flow_id, epoch = overview.partition_statuses[number]
    clients = {flow.flow_id: flow.client for flow in overview.flows}
    first = standing.first_waiting
    reason = standing.reason
    if reason is WaitReason.NO_CONSUMER and status == PartitionStatus.UNBOUND:
        reason = WaitReason.HOLDDOWN
    return KeyExplanation(
        queue=queue,
        key=key,
        key_hash=hashed,
        partition=number,
        partition_status=status,
        assignment_epoch=epoch,
        flow_id=str(flow_id) if flow_id else None,
        client=clients.get(flow_id),
        waiting_count=standing.waiting_count,
        in_flight_count=standing.in_flight_count,
        first_waiting=f"{number}:{first}" if first else None,
        reason=reason,
        unseen_count=standing.unseen_count,
    )


def _topic_problem(topic: str) -> str:
    """Return why no client may publish to a topic; empty: clients may. MQTT's clients name queues by their topics."""
    check = check_topic_name if is_queue_topic(topic) else check_published_topic
    try:
        check(topic)
    except TopicError as error:
        return f"400 Invalid Topic: {error}"
    return ""


async def _find(vpn: "MessageVpn", name: str) -> QueueHandle:
    handle: QueueHandle | None = await vpn.queues.ask(FindQueue(name))
    if handle is None:
        raise QueueNotFound(name)
    return handle
