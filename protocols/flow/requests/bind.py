"""Carry out OPEN_PUB and BIND: open publishers, bind consumers and browsers to queues."""

from typing import Final

from sluicegate.actors.messages.directory import FindQueue, QueueHandle
from sluicegate.actors.messages.queues import (
    ENDPOINT_DISABLED,
    MAX_BIND_COUNT_EXCEEDED,
    NOT_OWNER,
    OWNER_CONNECTED,
    PERMISSION_DENIED,
    QUEUE_EXPIRED,
    BindBrowser,
    BindFlow,
    BindRefused,
    BrowserBound,
    UnbindFlow,
)
from sluicegate.messaging.bulk.durable_cursors import QUEUE_IN_USE
from sluicegate.messaging.clients.homes import publisher_key
from sluicegate.messaging.clients.rights import PUBLISHER_OF_ANOTHER, ClientDenied
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.observability.events import CLIENT_FLOW_OPENED
from sluicegate.messaging.queues.credit import CreditWindow
from sluicegate.messaging.selectors.lexer import SelectorError
from sluicegate.messaging.selectors.selector import Selector
from sluicegate.protocols.connection.passed_client import PassedClient
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec.frames.flow import Bind, Bound, OpenPub, PubOpened
from sluicegate.protocols.flow.codec.limits import WINDOW_MAX
from sluicegate.protocols.flow.datapath.browsing import BrowserFlow
from sluicegate.protocols.flow.datapath.consuming import ConsumerFlow
from sluicegate.protocols.flow.datapath.publishing import PublisherFlow
from sluicegate.protocols.flow.datapath.relaying import RelayedPublisher
from sluicegate.protocols.flow.peer import RETRY_AFTER_MS, FlowPeer
from sluicegate.protocols.flow.publishers.publisher import (
    ClaimPublisher,
    NamedPublisher,
    PublisherMoves,
    PublisherNotStored,
    PublisherOfAnother,
    ReleasePublisher,
    TooManyPublishers,
)
from sluicegate.protocols.transport.passing.moves import open_stream
from sluicegate.protocols.transport.passing.passage import PassageFull
from sluicegate.protocols.transport.passing.passed_peer import PUBLISHER, encode_peer

PROTOCOL: Final = "flow"

_BIND_CODES: Final[dict[str, int]] = {
    PERMISSION_DENIED: codes.PERMISSION_DENIED,
    NOT_OWNER: codes.PERMISSION_DENIED,
    OWNER_CONNECTED: codes.PERMISSION_DENIED,
    ENDPOINT_DISABLED: codes.DISABLED,
    MAX_BIND_COUNT_EXCEEDED: codes.TOO_MANY,
    QUEUE_IN_USE: codes.IN_USE,
    QUEUE_EXPIRED: codes.NOT_FOUND,
}
# OWNER_CONNECTED: the client may be back before the gateway has noticed that its former connection is lost.
_FOR_NOW: Final = frozenset({ENDPOINT_DISABLED, MAX_BIND_COUNT_EXCEEDED, QUEUE_IN_USE, OWNER_CONNECTED})


async def open_publisher(peer: FlowPeer, request: OpenPub) -> None:
    """Answer OPEN_PUB."""
    named: NamedPublisher | None = None
    rights = peer.identity.admitted()
    if rights is not None:  # else another broker of this machine has asked
        relayed_count = 0 if peer.relays is None else len(peer.relays.flows)
        try:
            rights.check_publisher_flow(len(peer.publishers.flows) + relayed_count)
        except ClientDenied as denied:
            peer.refuse_request(request.flow_id, request.request_id, codes.TOO_MANY, denied.text, None)
            return
        if request.name and _relay_publisher(peer, request):
            return
    window_max = peer.services.limits.window
    window = min(request.window or window_max, window_max, WINDOW_MAX)
    if request.name:
        try:
            named = await peer.services.publishers.ask(
                ClaimPublisher(request.name, peer.cell, peer.identity.user, window)
            )
        except TooManyPublishers as too_many:
            peer.refuse_request(request.flow_id, request.request_id, codes.TOO_MANY, str(too_many), RETRY_AFTER_MS)
            return
        except PublisherOfAnother as of_another:
            peer.services.clients.denials.deny(PUBLISHER_OF_ANOTHER, peer.client, str(of_another))
            peer.refuse_request(request.flow_id, request.request_id, codes.PERMISSION_DENIED, str(of_another), None)
            return
        except PublisherMoves as moving:
            _refuse_for_now(peer, request, str(moving))
            return
        except PublisherNotStored as unstored:
            peer.refuse_request(request.flow_id, request.request_id, codes.NOT_STORED, str(unstored), RETRY_AFTER_MS)
            return
    if peer.is_released:
        if named is not None:
            peer.services.publishers.inbox.post(ReleasePublisher(named, named.epoch))
        return
    flow = PublisherFlow(request.flow_id, named, window)
    peer.publishers.add(flow)
    peer.ids.answered(request.flow_id)
    opened = PubOpened(
        request.flow_id,
        request.request_id,
        epoch=flow.epoch,
        stored_through=flow.answered_through,
        stored_highest=flow.answered_through if named is None else named.highest(),
        sequence_max=flow.sequence_max,
        incarnation=peer.services.incarnation ^ (0 if named is None else named.lineage),
    )
    peer.send(opened.encode())
    peer.report(CLIENT_FLOW_OPENED, f"publisher flow {flow.shown()} opened")


def _relay_publisher(peer: FlowPeer, request: OpenPub) -> bool:
    """Have a named publisher served at its home, if that is another broker of this machine; return whether it is."""
    homes, client = peer.services.homes, peer.peer_info
    if homes is None or client is None:
        return False
    home = homes.publisher_homes.home_of(publisher_key(peer.identity.vpn, request.name))
    if home == homes.publisher_homes.here:
        return False
    passage = homes.passage_to(home)
    if passage is None or not passage.is_open:
        _refuse_for_now(peer, request, f"broker {home} of this machine, which has publisher {request.name!r}, is away")
        return True
    granted = peer.services.authenticator.granted(peer.identity.user)
    visitor = PassedClient(peer.identity.vpn, peer.client, peer.identity.principal(), granted)
    message = PUBLISHER + encode_peer(client, visitor.encode(request.encode()))
    try:
        stream = open_stream(passage, message, files_max=peer.services.files_max)
    except PassageFull as full:
        _refuse_for_now(peer, request, f"broker {home} of this machine, which has publisher {request.name!r}: {full}")
    except OSError as error:
        _refuse_for_now(peer, request, f"no socket for publisher {request.name!r} to broker {home}: {error}")
    else:
        peer.relay(RelayedPublisher(peer, request, home, stream))
    return True


def _refuse_for_now(peer: FlowPeer, request: OpenPub, text: str) -> None:
    peer.refuse_request(request.flow_id, request.request_id, codes.DISABLED, text, RETRY_AFTER_MS)


async def bind(peer: FlowPeer, request: Bind) -> None:
    """Answer BIND."""
    services = peer.services
    handle: QueueHandle | None = None
    selector: Selector | None = None
    code, text = codes.NOT_FOUND, f"there is no queue {request.name!r}"
    try:
        handle = await services.queues.ask(FindQueue(request.name, peer.identity.rights, consumes=True, anywhere=True))
        if handle is not None and request.selector.strip():
            selector = services.selectors.compile(request.selector)
    except ClientDenied as denied:
        handle, code, text = None, codes.PERMISSION_DENIED, denied.text
    except SelectorError as error:
        handle, code, text = None, codes.REQUEST_INVALID, str(error)
    if handle is None:
        peer.refuse_request(request.flow_id, request.request_id, code, text, None)
        return
    if peer.is_released:
        return
    try:
        peer.identity.check_bind(len(peer.consumers.flows) + len(peer.browsers.flows))
        if request.browses:
            await _bind_browser(peer, request, handle, selector)
        else:
            await _bind_consumer(peer, request, handle, selector)
    except BindRefused as refusal:
        code = _BIND_CODES.get(refusal.code, codes.DISABLED)
        retry_after_ms = RETRY_AFTER_MS if refusal.code in _FOR_NOW else None
        peer.refuse_request(request.flow_id, request.request_id, code, str(refusal), retry_after_ms)


async def _bind_consumer(peer: FlowPeer, request: Bind, handle: QueueHandle, selector: Selector | None) -> None:
    """Bind a consumer flow. Raises BindRefused."""
    services = peer.services
    unsettled_max = min(request.unsettled_max or services.limits.unsettled_max, services.limits.unsettled_max)
    window: CreditWindow[Address] = CreditWindow(0, services.credit)
    flow = ConsumerFlow(
        request.flow_id,
        peer.runtime.next_urn(),
        handle.cell,
        handle.name,
        window,
        unsettled_max=unsettled_max,
        delivery_id_max=request.delivery_id_max,
    )
    acknowledges = request.acknowledges and handle.state.is_partitioned()
    flow.answer = Bound(
        request.flow_id, request.request_id, unsettled_max, peer.incarnation_of(handle), acknowledges
    ).encode()
    peer.consumers.add(flow)
    bind_flow = BindFlow(
        flow.urn,
        peer.client,
        peer.identity.user,
        peer.cell.inbox,
        window,
        PROTOCOL,
        selector=selector,
        acknowledges=acknowledges,
        rights=peer.identity.rights,
    )
    try:
        await handle.cell.ask(bind_flow)
    except BindRefused:
        peer.consumers.remove(flow)
        raise
    if peer.is_released:
        handle.cell.inbox.post(UnbindFlow(flow.urn))
    else:
        peer.ids.answered(request.flow_id)
        peer.consumers.answer_bind(flow)


async def _bind_browser(peer: FlowPeer, request: Bind, handle: QueueHandle, selector: Selector | None) -> None:
    """Bind a browser flow. Raises BindRefused."""
    flow = BrowserFlow(request.flow_id, peer.runtime.next_urn(), handle.cell, request.delivery_id_max)
    peer.browsers.add(flow)
    bind_browser = BindBrowser(
        flow.urn,
        peer.client,
        PROTOCOL,
        peer.identity.user,
        peer.cell.inbox,
        window=0,
        selector=selector,
        rights=peer.identity.rights,
    )
    try:
        bound: BrowserBound = await handle.cell.ask(bind_browser)
    except BindRefused:
        peer.browsers.remove(flow)
        raise
    if peer.is_released:
        handle.cell.inbox.post(UnbindFlow(flow.urn))
    else:
        peer.ids.answered(request.flow_id)
        answer = Bound(request.flow_id, request.request_id, 0, peer.incarnation_of(handle))
        peer.browsers.begin(flow, bound.browser, answer.encode())
