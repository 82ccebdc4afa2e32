"""Operations on connected clients and subscriptions, and explanations of routing and waiting messages."""

from collections.abc import AsyncIterator
from typing import Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from sluicegate.gateway.admin.operation import INVALID_PARAMETER, PROBLEM, Answer, Operations, Parameter, TextParameter
from sluicegate.gateway.admin.requests import path_name, text, view_answer, whole_number
from sluicegate.gateway.admin.rest.vpn.queues import NO_QUEUE
from sluicegate.gateway.config.sections.admin import AccessLevel
from sluicegate.gateway.operations.interface import NodeInterface
from sluicegate.gateway.views.adapters import adapter
from sluicegate.gateway.views.clients.clients import CLIENTS_DEFAULT, CLIENTS_MAX, ClientQuery, ClientsView
from sluicegate.gateway.views.clients.connections import (
    SUBSCRIPTIONS_DEFAULT,
    SUBSCRIPTIONS_MAX,
    ClientDetailsView,
    ClientSubscriptionsView,
    SubscriptionsQuery,
)
from sluicegate.gateway.views.clients.subscriptions import ROWS_DEFAULT, ROWS_MAX, SmrpQuery, SmrpSubscriptionsView
from sluicegate.gateway.views.clients.traces import PAYLOAD_BYTES_MAX, TracedPacket
from sluicegate.gateway.views.queues.explanations import (
    ExampleMessage,
    KeyExplanation,
    PublishExplanation,
    properties_from_json,
)
from sluicegate.messaging.queues.definition import QueueInvalid

CLIENTS: Final = Operations()

CLIENT_NAME_PARAMETER: Final = TextParameter(
    "client_name", "pattern; `*` stands for any characters, `?` for one", 65_535
)
CLIENTS_NUMBERS: Final = (
    Parameter("after", "clients to skip", 0, 2**63 - 1, 0),
    Parameter("limit", "maximum number of clients to return", 1, CLIENTS_MAX, CLIENTS_DEFAULT),
)


@CLIENTS.operation(
    "GET",
    "/clients",
    Answer(200, "A page of clients, by name", ClientsView),
    INVALID_PARAMETER,
    parameters=(CLIENT_NAME_PARAMETER, *CLIENTS_NUMBERS),
)
async def list_clients(node: NodeInterface, request: Request) -> Response:
    """Connected clients, with their flows and unacknowledged messages."""
    after, limit = (whole_number(request, each) or 0 for each in CLIENTS_NUMBERS)
    name = text(request, CLIENT_NAME_PARAMETER) or ""
    return view_answer(await node.list_clients(ClientQuery(client_name=name, after=after, limit=limit)))


NO_CLIENT: Final = Answer(404, "No client of that name is connected", PROBLEM)


@CLIENTS.operation("GET", "/clients/{name}", Answer(200, "The client", ClientDetailsView), NO_CLIENT)
async def show_client(node: NodeInterface, request: Request) -> Response:
    """One client: each of its connections, with its flows and what its protocol has agreed on."""
    return view_answer(await node.show_client(path_name(request)))


SUBSCRIPTION_PARAMETER: Final = TextParameter(
    "topic_str", "pattern of the subscription; `*` stands for any characters, `?` for one", 65_535
)
SUBSCRIPTIONS_NUMBERS: Final = (
    Parameter("after", "subscriptions to skip", 0, 2**31 - 1, 0),
    Parameter("limit", "maximum number of subscriptions to return", 1, SUBSCRIPTIONS_MAX, SUBSCRIPTIONS_DEFAULT),
)


@CLIENTS.operation(
    "GET",
    "/clients/{name}/subscriptions",
    Answer(200, "A page of subscriptions", ClientSubscriptionsView),
    Answer(404, "No client of that name is connected or has an MQTT session", PROBLEM),
    INVALID_PARAMETER,
    parameters=(SUBSCRIPTION_PARAMETER, *SUBSCRIPTIONS_NUMBERS),
)
async def client_subscriptions(node: NodeInterface, request: Request) -> Response:
    """The subscriptions of one client, with the options that MQTT has for them."""
    after, limit = (whole_number(request, each) or 0 for each in SUBSCRIPTIONS_NUMBERS)
    question = SubscriptionsQuery(topic_str=text(request, SUBSCRIPTION_PARAMETER) or "", after=after, limit=limit)
    return view_answer(await node.client_subscriptions(path_name(request), question))


EVENTS_TYPE: Final = "text/event-stream"
PAYLOAD_PARAMETER: Final = Parameter("payload", "bytes of each payload to show", 0, PAYLOAD_BYTES_MAX, 0)


@CLIENTS.operation(
    "GET",
    "/clients/{name}/trace",
    Answer(200, "An event for each packet; its data is a TracedPacket", media_type=EVENTS_TYPE),
    NO_CLIENT,
    Answer(409, "The client is a broker at a link, which cannot be traced", PROBLEM),
    INVALID_PARAMETER,
    parameters=(PAYLOAD_PARAMETER,),
    level=AccessLevel.READ_WRITE,
)
async def trace_client(node: NodeInterface, request: Request) -> Response:
    """Follow the packets, frames or HTTP messages of one client, live, both ways, also on later connections."""
    payload_bytes = whole_number(request, PAYLOAD_PARAMETER) or 0
    if request.method == "HEAD":
        await node.show_client(path_name(request))
        return _head_of_events()
    return _events(await node.trace_client(path_name(request), payload_bytes))


USERNAME_PARAMETER: Final = TextParameter(
    "client_username", "username; default: clients that were admitted without one", 255
)


@CLIENTS.operation(
    "GET",
    "/trace",
    Answer(200, "An event for each packet; its data is a TracedPacket", media_type=EVENTS_TYPE),
    INVALID_PARAMETER,
    parameters=(USERNAME_PARAMETER, PAYLOAD_PARAMETER),
    level=AccessLevel.READ_WRITE,
)
async def trace_username(node: NodeInterface, request: Request) -> Response:
    """Follow all clients that are admitted under a username, on any protocol, live, connected now or later."""
    username, payload_bytes = text(request, USERNAME_PARAMETER) or "", whole_number(request, PAYLOAD_PARAMETER) or 0
    if request.method == "HEAD":
        return _head_of_events()
    return _events(await node.trace_username(username, payload_bytes))


def _head_of_events() -> Response:
    """Return the answer to HEAD: the body of a GET would be endless, so nothing begins that nobody would end."""
    answer = Response(media_type=EVENTS_TYPE)
    del answer.headers["content-length"]
    return answer


def _events(traced: AsyncIterator[TracedPacket]) -> Response:
    events = (b"data: " + adapter(TracedPacket).dump_json(packet) + b"\n\n" async for packet in traced)
    return StreamingResponse(events, media_type=EVENTS_TYPE)


@CLIENTS.operation("DELETE", "/clients/{name}", Answer(204, "Disconnected"), NO_CLIENT)
async def disconnect_client(node: NodeInterface, request: Request) -> Response:
    """Disconnect a client, on all protocols; it may connect again."""
    await node.disconnect_client(path_name(request))
    return Response(status_code=204)


PATTERN_CHARS_MAX: Final = 65_535
SMRP_TEXTS: Final = (
    TextParameter("vpn_name", "pattern; `*` stands for any characters, `?` for one", PATTERN_CHARS_MAX),
    TextParameter("destination_name", "pattern of clients and queues", PATTERN_CHARS_MAX),
    TextParameter("topic", "only subscriptions that match this topic", PATTERN_CHARS_MAX),
    TextParameter("topic_str", "pattern of the subscription", PATTERN_CHARS_MAX),
)
SMRP_NUMBERS: Final = (
    Parameter("after", "rows to skip", 0, 2**31 - 1, 0),
    Parameter("limit", "maximum number of rows to return", 1, ROWS_MAX, ROWS_DEFAULT),
)


@CLIENTS.operation(
    "GET",
    "/smrp/subscriptions",
    Answer(200, "A page of rows, by destination", SmrpSubscriptionsView),
    INVALID_PARAMETER,
    parameters=(*SMRP_TEXTS, *SMRP_NUMBERS),
)
async def smrp_subscriptions(node: NodeInterface, request: Request) -> Response:
    """Subscriptions of clients and queues, with their Deliver-To-One priorities."""
    vpn_name, destination_name, topic, topic_str = (text(request, each) or "" for each in SMRP_TEXTS)
    after, limit = (whole_number(request, each) or 0 for each in SMRP_NUMBERS)
    question = SmrpQuery(
        vpn_name=vpn_name,
        destination_name=destination_name,
        topic=topic,
        topic_str=topic_str,
        after=after,
        limit=limit,
    )
    return view_answer(await node.smrp_subscriptions(question))


TOPIC_PARAMETER: Final = TextParameter("topic", "topic of the message; omit it with `queue`", 65_535)
TARGET_PARAMETER: Final = TextParameter("queue", "queue that the message is sent to", 250)
MESSAGE_TEXTS: Final = (
    TextParameter("key", "partition key", 255),
    TextParameter("client_id", "client ID of the publisher, for queues that use it as the key", 65_535),
    TextParameter(
        "client_username", "user name of the publisher, for its rights; default: that of the connected client", 255
    ),
    TextParameter(
        "properties", 'user properties of the message, for selectors: a JSON object such as {"amount": 12}', 65_535
    ),
)
MESSAGE_PARAMETERS: Final = (
    Parameter("size", "payload size in bytes", 0, 2**40, 0),
    Parameter("qos", "quality of service; 0: a direct message", 0, 2, 1),
    Parameter("priority", "priority; below 4 is low", 0, 9, 4),
    Parameter("deliver_to_one", "1: deliver to one subscriber only", 0, 1, 0),
)


@CLIENTS.operation(
    "GET",
    "/explain/publish",
    Answer(200, "The explanation", PublishExplanation),
    NO_QUEUE,
    INVALID_PARAMETER,
    parameters=(TOPIC_PARAMETER, TARGET_PARAMETER, *MESSAGE_TEXTS, *MESSAGE_PARAMETERS),
)
async def explain_publish(node: NodeInterface, request: Request) -> Response:
    """The queues and partitions that a message would go to, and the result of each check; nothing is published."""
    topic, queue = text(request, TOPIC_PARAMETER), text(request, TARGET_PARAMETER)
    if (topic is None) == (queue is None):
        raise QueueInvalid("topic", "give a topic or a queue, not both", "topic, or queue")
    key, client_id, client_username, properties = (text(request, each) for each in MESSAGE_TEXTS)
    size, qos, priority, deliver_to_one = (whole_number(request, each) or 0 for each in MESSAGE_PARAMETERS)
    message = ExampleMessage(
        topic=topic or "",
        size_bytes=size,
        qos=qos,
        key=key,
        priority=priority,
        client_id=client_id or "",
        client_username=client_username,
        deliver_to_one=bool(deliver_to_one),
        properties=properties_from_json(properties) if properties else (),
    )
    return view_answer(await node.explain_publish(message, queue=queue))


QUEUE_PARAMETER: Final = TextParameter("queue", "name of the queue", 250, required=True)
KEY_PARAMETER: Final = TextParameter("key", "partition key", 255, required=True)


@CLIENTS.operation(
    "GET",
    "/explain/key",
    Answer(200, "The explanation", KeyExplanation),
    NO_QUEUE,
    INVALID_PARAMETER,
    parameters=(QUEUE_PARAMETER, KEY_PARAMETER),
)
async def explain_key(node: NodeInterface, request: Request) -> Response:
    """The partition of a key, its consumer, and why messages of the key wait."""
    queue, key = (text(request, each) or "" for each in (QUEUE_PARAMETER, KEY_PARAMETER))
    return view_answer(await node.explain_key(queue, key))
