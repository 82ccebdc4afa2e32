"""Bind the queue flows of a connection on subscribe and resume, and bind them again after a queue has ended them.

MQTT has no packet to tell a client that its flow has ended, so no client would subscribe again on its own. The
connection does it instead, as APIs of other brokers do, and asks the queue every three seconds.
"""

import logging
from typing import Final

import pykka

from sluicegate.actors.messages.directory import FindQueue, LocalQueue, QueueHandle
from sluicegate.actors.messages.partitions import FoundSequences, LookUpSequences
from sluicegate.actors.messages.queues import NOT_OWNER, PERMISSION_DENIED, BindFlow, BindRefused, FlowGone, UnbindFlow
from sluicegate.actors.runtime.tasks import run
from sluicegate.messaging.clients.rights import ClientDenied
from sluicegate.protocols.mqtt.client import MqttClient
from sluicegate.protocols.mqtt.datapath.delivering import BoundFlow, Deliverer
from sluicegate.protocols.mqtt.session.packet_ids import SentIds
from sluicegate.protocols.mqtt.session.session import ExtraSubscription, Session

log = logging.getLogger("sluicegate.mqtt")

REBIND_MS: Final = 3000  # the interval of Solace's APIs


async def resume_flows(client: MqttClient, session: Session) -> None:
    """Bind the flows of everything the session is subscribed to; deleted queues are skipped."""
    if session.queue is not None:
        await bind_flow(client, session.queue, None, is_named_queue=False)
    for extra in session.shares.values():
        if extra.queue_name:
            handle = await client.services.queues.ask(FindQueue(extra.queue_name))
            if handle is not None:
                await bind_flow(client, handle, extra, is_named_queue=False)
    for extra in session.queues.values():
        await _bind_to_named_queue(client, extra)


async def bind_flow(
    client: MqttClient, handle: QueueHandle, extra: ExtraSubscription | None, *, is_named_queue: bool
) -> None:
    """Bind a flow of this connection to a queue. Raises BindRefused."""
    attached = client.attached
    if attached is None:
        return  # the connection ended meanwhile
    delivering = client.delivering_of(attached)
    if is_named_queue:
        client.identity.check_bind(sum([each.is_named_queue for each in delivering.flows.values()]))
    if is_named_queue or handle.definition.config.partitioned():  # ids are remembered by the sequences of one partition
        ids = None
    else:
        ids = attached.session.ids if extra is None else extra.ids
    if ids is not None:
        assert isinstance(handle, LocalQueue), "ids are those of a session's queue, or of a group's"
        await _match_ids(delivering, handle, ids)
    suspended = None if extra is None else extra.suspended
    flow_id = client.cell.runtime.next_urn() if suspended is None else suspended.flow_id
    # Known before it is bound: deliveries may be here before the answer.
    delivering.flows[flow_id] = BoundFlow(handle.cell.inbox, extra, ids, is_named_queue=is_named_queue)
    try:
        await handle.cell.ask(
            BindFlow(
                flow_id,
                attached.session.client_id,
                client.identity.user,
                client.cell.inbox,
                delivering.window,
                selector=None if extra is None else extra.selector,
                rights=client.identity.rights,
            )
        )
    except Exception:  # refused, or the queue has ended meanwhile
        delivering.flows.pop(flow_id, None)
        raise
    if extra is not None:
        extra.suspended = None
    if client.attached is not attached:
        handle.cell.inbox.post(UnbindFlow(flow_id))  # the connection ended meanwhile


async def _match_ids(delivering: Deliverer, handle: LocalQueue, ids: SentIds) -> None:
    """Free the packet ids of messages that no longer exist: settled before a crash, purged, or of another queue."""
    partition_id = handle.target.partitions[0].partition_id
    if ids.remembered:
        unsettled: list[tuple[int, int]] = []
        if ids.partition_id == partition_id:
            found: FoundSequences = await handle.cell.ask(LookUpSequences(ids.kept_ranges()))
            unsettled = found.unsettled
        delivering.forget_settled(ids, unsettled)
    ids.set_partition(partition_id)


def flow_gone(client: MqttClient, message: FlowGone) -> None:
    """A queue has ended a flow of this client."""
    if client.attached is None or client.attached.delivering is None:
        return
    bound = client.attached.delivering.flows.pop(message.flow_id, None)
    if bound is not None and bound.extra is not None and message.may_return:
        _bind_later(client, bound.extra)


def _not_bound(client: MqttClient, extra: ExtraSubscription, refusal: BindRefused) -> None:
    """A queue that the session is subscribed to would not bind its flow."""
    counters = client.services.counters
    counters.count(counters.dropped, "bind_refused")
    if refusal.code not in (PERMISSION_DENIED, NOT_OWNER):
        _bind_later(client, extra)


def _bind_later(client: MqttClient, extra: ExtraSubscription) -> None:
    client.cell.after(REBIND_MS, lambda: _bind_again(client, extra))


def _bind_again(client: MqttClient, extra: ExtraSubscription) -> None:
    if _may_bind(client, extra):
        bound = run(client.cell.runtime, _bind_to_named_queue(client, extra))
        bound.then(lambda done: client.cell.do(done.get))


async def _bind_to_named_queue(client: MqttClient, extra: ExtraSubscription) -> None:
    """Bind the flow of a subscription that the session has already. Refusals are counted."""
    try:
        wanted = FindQueue(extra.queue_name, client.identity.rights, consumes=True, anywhere=True)
        handle = await client.services.queues.ask(wanted)
        if handle is not None and _may_bind(client, extra):
            await bind_flow(client, handle, extra, is_named_queue=True)
    except ClientDenied as denied:
        _not_bound(client, extra, BindRefused(PERMISSION_DENIED, denied.text))
    except BindRefused as refusal:
        _not_bound(client, extra, refusal)
    except pykka.ActorDeadError:
        log.debug("queue %r was deleted before its flow could be bound", extra.queue_name)


def _may_bind(client: MqttClient, extra: ExtraSubscription) -> bool:
    """Return whether the client is there, still has the subscription, and has no flow for it."""
    attached = client.attached
    if attached is None or attached.session.queues.get(extra.filter_text) is not extra:
        return False
    return attached.delivering is None or attached.delivering.flow_of(extra) is None
