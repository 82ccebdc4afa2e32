"""Links that are members of a shared group, under the addresses that MQTT and SMF have for one.

`$share/NAME/FILTER` and `#share/NAME/FILTER` name the group that members of the other protocols are in. A link consumes
from the group's queue, which its share of direct messages passes, too. The membership ends with the link, however it
ends. Subscriptions that AMQP itself calls shared, by container and link, are in `links.subscriptions`.
"""

from sluicegate.actors.messages.data import StoreRefused
from sluicegate.actors.messages.directory import LocalQueue, QueuesExhausted
from sluicegate.actors.messages.router import AwaitNeighbors, GroupJoined, JoinGroup, LeaveGroup, ShareRefused
from sluicegate.messaging.message.batch import AT_LEAST_ONCE
from sluicegate.messaging.routing.destinations import Subscriber
from sluicegate.messaging.topics.syntax import SharedFilter, TopicError, parse_shared
from sluicegate.protocols.amqp.client import AmqpClient
from sluicegate.protocols.amqp.codec.addresses import QUEUE, AddressedNode, AddressRefused
from sluicegate.protocols.amqp.codec.termini import DURABLE_NONE, Source
from sluicegate.protocols.amqp.engine.link import OutgoingLink
from sluicegate.protocols.amqp.links.subscriptions import partition_count_of
from sluicegate.protocols.amqp.types import errors as conditions


def shared_filter(node: AddressedNode) -> SharedFilter | None:
    """Return the group that an address names; None when it names none. Raises AddressRefused."""
    if node.kind == QUEUE:
        return None
    try:
        return parse_shared(node.name)
    except TopicError as error:
        raise AddressRefused(conditions.INVALID_FIELD, f"topic {error}") from None


async def join_group(
    client: AmqpClient, link: OutgoingLink, source: Source, shared: SharedFilter
) -> tuple[LocalQueue, LeaveGroup]:
    """Make a link a member; return the group's queue, and what ends the membership.

    Raises ClientDenied unless the client's profiles permit it, and AddressRefused.
    """
    rights, endpoints = client.identity.rights, client.endpoints
    rights.check_share(shared.share_name)
    rights.check_subscription(shared.filter, endpoints.subscription_count(), share_name=shared.share_name)
    rights.check_endpoint()
    rights.check_flow(endpoints.flow_count())
    number = client.runtime.next_urn()
    member = Subscriber(f"{client.client_name}/{number}", key=f"\0amqp/{number}")
    member.address = client.cell.inbox
    durable = source.durable > DURABLE_NONE
    count = partition_count_of(link)
    join = JoinGroup(member, *shared, AT_LEAST_ONCE, durable, count, from_queue=True)
    endpoints.subscribing_count += 1
    try:
        joined: GroupJoined = await client.services.router.ask(join)
        if joined.travels:
            await client.services.router.ask(AwaitNeighbors())
    except ShareRefused as mismatch:
        raise AddressRefused(conditions.ILLEGAL_STATE, str(mismatch)) from None
    except (StoreRefused, QueuesExhausted) as refusal:
        raise AddressRefused(conditions.RESOURCE_LIMIT_EXCEEDED, str(refusal)) from None
    finally:
        endpoints.subscribing_count -= 1
    assert joined.queue is not None, "who asks for guaranteed messages gets a queue"
    return joined.queue, LeaveGroup(member, *shared)
