"""Carry out requests: those about flows, and those that belong to no flow.

Flow ids and the number of flows are checked here; `bind`, `bulk` and `provisioning` ask the other actors.
"""

from typing import Final, TypeAlias, final

import pykka

from sluicegate.actors.messages.queues import UnbindFlow
from sluicegate.messaging.bulk.durable_cursors import CursorRefused
from sluicegate.messaging.bulk.staging import StagingRefused
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec.codes import PeerViolation, RequestRefused
from sluicegate.protocols.flow.codec.frame import CLOSE_PUB, SESSION
from sluicegate.protocols.flow.codec.frames.flow import Bind, FlowEnd, OpenPub
from sluicegate.protocols.flow.codec.frames.partition import PartitionsAck
from sluicegate.protocols.flow.codec.frames.provision import Provision
from sluicegate.protocols.flow.codec.frames.rows import Read
from sluicegate.protocols.flow.codec.frames.stage import StageRows
from sluicegate.protocols.flow.codec.limits import REQUESTS_MAX, STAGES_MAX
from sluicegate.protocols.flow.engine.events import FlowEvent
from sluicegate.protocols.flow.peer import REFUSAL_CODES, RETRY_AFTER_MS, FlowPeer
from sluicegate.protocols.flow.requests.bind import bind, open_publisher
from sluicegate.protocols.flow.requests.bulk import BULK_REQUESTS, BulkRequest, answer_bulk, begin_reading
from sluicegate.protocols.flow.requests.provisioning import answer_provision

# Requests that belong to no flow: dispatch, and the limits of unanswered ones.


SessionRequest: TypeAlias = BulkRequest | Provision
SESSION_REQUESTS: Final = (*BULK_REQUESTS, Provision)


@final
class SessionRequests:
    """The requests of one connection that belong to no flow."""

    def __init__(self) -> None:
        self._open_count = 0
        self._stages_count = 0  # of them, those that hold rows

    def take(self, peer: FlowPeer, request: SessionRequest) -> None:
        """Carry out a request."""
        is_stage = isinstance(request, StageRows)
        if self._open_count >= REQUESTS_MAX or (is_stage and self._stages_count >= STAGES_MAX):
            text = f"a connection has at most {REQUESTS_MAX} requests without answer, {STAGES_MAX} of them STAGE"
            peer.refuse_by_code(SESSION, request.request_id, codes.TOO_MANY, text)
            return
        self._open_count += 1
        self._stages_count += int(is_stage)
        peer.carry_out(self._carry_out(peer, request))

    async def _carry_out(self, peer: FlowPeer, request: SessionRequest) -> None:
        code, text, answer, may_retry = codes.NONE, "", b"", False
        try:
            if isinstance(request, Provision):
                answer = await answer_provision(peer, request)
            else:
                answer = await answer_bulk(peer, request)
        except RequestRefused as refusal:
            code, text, may_retry = refusal.code, str(refusal), refusal.may_retry
        except PeerViolation as violation:
            code, text = violation.code, violation.text
        except (CursorRefused, StagingRefused) as refused:
            code, text = REFUSAL_CODES[refused.code], str(refused)
        except pykka.ActorDeadError:
            code, text = codes.NOT_FOUND, "the queue was deleted meanwhile"
        finally:
            self._open_count -= 1
            self._stages_count -= int(isinstance(request, StageRows))
        if code == codes.NONE:
            peer.send(answer)
        else:
            peer.refuse_by_code(SESSION, request.request_id, code, text, may_retry=may_retry)


def take_flow_request(peer: FlowPeer, event: FlowEvent) -> None:
    """Carry out a request that opens, ends or controls a flow. Raises PeerViolation."""
    if isinstance(event, OpenPub):
        if _take_flow_id(peer, event.flow_id, event.request_id):
            peer.carry_out(open_publisher(peer, event))
    elif isinstance(event, Bind):
        if _take_flow_id(peer, event.flow_id, event.request_id):
            peer.carry_out(bind(peer, event))
    elif isinstance(event, Read):
        if _take_flow_id(peer, event.flow_id, event.request_id):
            peer.carry_out(begin_reading(peer, event))
    elif isinstance(event, FlowEnd):
        _end_flow(peer, event)
    elif isinstance(event, PartitionsAck):
        flow = peer.consumers.flows.get(event.flow_id)
        if flow is None:
            peer.ids.check_ended(event.flow_id)
        else:
            peer.consumers.acknowledge(flow, event.number)


def _take_flow_id(peer: FlowPeer, flow_id: int, request_id: int) -> bool:
    """Give a flow id to a request, unless the connection has too many flows. Raises PeerViolation."""
    peer.ids.take(flow_id)
    flows_max = peer.services.limits.flows_max
    endpoints = (peer.publishers, peer.consumers, peer.browsers, peer.bulk_reads)
    flows_count = sum([len(endpoint.flows) for endpoint in endpoints])
    if peer.relays is not None:
        flows_count += peer.relays.open_count
    if peer.ids.pending_count + flows_count > flows_max:
        text = f"a connection has at most {flows_max} flows"
        peer.refuse_request(flow_id, request_id, codes.TOO_MANY, text, RETRY_AFTER_MS)
        return False
    return True


def _end_flow(peer: FlowPeer, event: FlowEnd) -> None:
    flow_id = event.flow_id
    if event.kind == CLOSE_PUB:
        publisher = peer.publishers.flows.get(flow_id)
        if publisher is not None:
            peer.close_publisher(publisher)
        relayed = None if peer.relays is None else peer.relays.flows.get(flow_id)
        if relayed is not None and relayed.is_open:
            relayed.send([FlowEnd(event.kind, flow_id, event.request_id, False).encode()])
            return  # its home answers
    else:
        consumer = peer.consumers.flows.get(flow_id)
        if consumer is not None:
            peer.consumers.remove(consumer)
            consumer.queue.inbox.post(UnbindFlow(consumer.urn, may_return=False))
        peer.browsers.unbind(flow_id)
        peer.bulk_reads.remove(flow_id)
    peer.ids.check_ended(flow_id)
    peer.send(FlowEnd(event.kind, flow_id, event.request_id, True).encode())  # of one that has ended as well
