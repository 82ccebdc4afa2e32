"""A session that begins again with what the store has of it: after a restart, or at its new home.

It subscribes as before, while its client is away, and what its client has under packet ids waits for that client.
"""

from sluicegate.actors.messages.directory import LocalQueue
from sluicegate.actors.messages.partitions import FoundSequences, LookUpSequences
from sluicegate.actors.messages.queues import RestoreSuspendedFlow
from sluicegate.actors.messages.router import AddSubscription, GroupJoined, JoinGroup
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.messaging.partitions.state.flows import Flow
from sluicegate.messaging.queues.credit import CreditWindow
from sluicegate.messaging.routing.destinations import Subscriber
from sluicegate.messaging.topics.syntax import Syntax, parse_shared
from sluicegate.protocols.mqtt.session.session import ExtraSubscription, Session, SuspendedFlow
from sluicegate.protocols.mqtt.session.stored import StoredSession


async def subscribe_again(
    stored: StoredSession, queue: LocalQueue | None, *, router: ActorCell, cell: ActorCell
) -> None:
    """Have a session get messages: by its subscriptions, its queue and its shared subscriptions.

    `cell` is that of the directory of sessions, to which what waits for the client is bound meanwhile.
    """
    session = stored.session
    subscriber = session.subscriber = Subscriber(session.client_id)
    if queue is not None:
        session.queue = queue
        subscriber.queue = queue.target
        await _match_queue(queue, stored)
    for granted in session.table.by_filter.values():
        added = AddSubscription(
            subscriber,
            granted.topic_filter,
            granted.qos,
            retained_if_new=False,
            retained_if_known=False,
            selector=granted.selector,
            priorities=granted.priorities,
        )
        await router.ask(added)
    for extra in stored.extras:
        shared = parse_shared(extra.filter_text, Syntax.MQTT)
        if shared is None:
            session.add_queue(extra)
            continue
        session.add_share(extra)
        joined: GroupJoined = await router.ask(JoinGroup(subscriber, shared.share_name, shared.filter, extra.qos, True))
        extra.queue_name = "" if joined.queue is None else joined.queue.name
        if joined.queue is not None:
            await _park_again(session, extra, joined.queue, cell)


async def _match_queue(queue: LocalQueue, stored: StoredSession) -> None:
    """Note whose sequences the session's packet ids are of, and which messages a crash leaves in doubt."""
    ids = stored.session.ids
    ids.set_partition(queue.target.partitions[0].partition_id)
    if not stored.closed_wall_ms:  # the client was there: its QoS 1 ids were not written
        found: FoundSequences = await queue.cell.ask(LookUpSequences([]))
        ids.maybe_sent_below = found.suspect_end


async def _park_again(session: Session, extra: ExtraSubscription, queue: LocalQueue, cell: ActorCell) -> None:
    """Have the messages that are this client's alone wait for it in the queue of a shared subscription."""
    if extra.ids.partition_id != queue.target.partitions[0].partition_id:
        return  # another queue of the same name: the packet ids are freed when the client is back
    ranges = extra.ids.ranges_of_client()
    if not ranges:
        return
    found: FoundSequences = await queue.cell.ask(LookUpSequences(ranges))
    if not found.unsettled:
        return
    flow_id = cell.runtime.next_urn()
    flow = Flow(
        flow_id=flow_id,
        queue_name=queue.name,
        client=session.client_id,
        address=cell.inbox,
        window=CreditWindow(0),
        bound_order=flow_id,
    )
    extra.ids.restore_unsettled(found.unsettled)
    extra.suspended = SuspendedFlow(flow_id, queue.cell.inbox)
    queue.cell.inbox.post(RestoreSuspendedFlow(flow, found.unsettled))
