"""What a client asks for, one frame at a time: flows and their ends, and what needs no flow.

Flow ids and the number of flows are looked at here; a request that may go on is carried out by `binding`,
`bulk_requests` or `provisioning`, for these have to ask other actors.
"""

from typing import TYPE_CHECKING

from sluicegate.actors.messages.queues import UnbindFlow
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec.frame import CLOSE_PUB
from sluicegate.protocols.flow.codec.frames.flow import Bind, FlowEnd, OpenPub
from sluicegate.protocols.flow.codec.frames.partition import PartitionsAck
from sluicegate.protocols.flow.codec.frames.rows import Read
from sluicegate.protocols.flow.codec.frames.subscription import Subscribe
from sluicegate.protocols.flow.engine.events import FlowEvent
from sluicegate.protocols.flow.requests.bind import RETRY_AFTER_MS, bind, close_publisher, open_publisher
from sluicegate.protocols.flow.requests.bulk import begin_reading
from sluicegate.protocols.flow.requests.session_requests import SESSION_REQUESTS

if TYPE_CHECKING:
    from sluicegate.protocols.flow.connection import FlowConnection


def take_request(connection: "FlowConnection", event: FlowEvent) -> None:
    """See to a request. Raises PeerViolation."""
    if isinstance(event, OpenPub):
        if _take_flow_id(connection, event.flow_id, event.request_id):
            connection.carry_out(open_publisher(connection, event))
    elif isinstance(event, Bind):
        if _take_flow_id(connection, event.flow_id, event.request_id):
            connection.carry_out(bind(connection, event))
    elif isinstance(event, Read):
        if _take_flow_id(connection, event.flow_id, event.request_id):
            connection.carry_out(begin_reading(connection, event))
    elif isinstance(event, SESSION_REQUESTS):
        connection.session_requests.take(connection, event)
    elif isinstance(event, Subscribe):
        connection.subscribing.take(connection, event)
    elif isinstance(event, FlowEnd):
        _end_flow(connection, event)
    elif isinstance(event, PartitionsAck):
        flow = connection.consuming.flows.get(event.flow_id)
        if flow is None:
            connection.ids.check_ended(event.flow_id)
        else:
            connection.consuming.acknowledge(flow, event.number)


def _take_flow_id(connection: "FlowConnection", flow_id: int, request_id: int) -> bool:
    """Give a flow id to a request, unless the connection has too many flows. Raises PeerViolation."""
    connection.ids.take(flow_id)
    flows_max = connection.services.limits.flows_max
    sides = (connection.publishing, connection.consuming, connection.browsing, connection.reading)
    flows_count = sum([len(side.flows) for side in sides])
    if connection.ids.pending_count + flows_count > flows_max:
        text = f"a connection has at most {flows_max} flows"
        connection.refuse_request(flow_id, request_id, codes.TOO_MANY, text, RETRY_AFTER_MS)
        return False
    return True


def _end_flow(connection: "FlowConnection", event: FlowEnd) -> None:
    flow_id = event.flow_id
    if event.kind == CLOSE_PUB:
        publisher = connection.publishing.flows.get(flow_id)
        if publisher is not None:
            close_publisher(connection, publisher)
    else:
        consumer = connection.consuming.flows.get(flow_id)
        if consumer is not None:
            connection.consuming.remove(consumer)
            consumer.queue.inbox.post(UnbindFlow(consumer.urn, may_return=False))
        connection.browsing.unbind(flow_id)
        connection.reading.remove(flow_id)
    connection.ids.check_ended(flow_id)
    connection.send(FlowEnd(event.kind, flow_id, event.request_id, True).encode())  # of one that has ended as well
