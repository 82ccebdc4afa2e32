"""Operations on what stays without a connection: MQTT sessions, and retained messages."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from sluicegate.gateway.admin.operation import (
    INVALID_PARAMETER,
    PROBLEM,
    REFUSED,
    Answer,
    Operations,
    Parameter,
    TextParameter,
)
from sluicegate.gateway.admin.requests import path_name, text, view_answer, whole_number
from sluicegate.gateway.operations.interface import NodeInterface
from sluicegate.gateway.views.clients.retained import (
    RETAINED_DEFAULT,
    RETAINED_MAX,
    RetainedContentView,
    RetainedMessagesView,
    RetainedQuery,
)
from sluicegate.gateway.views.clients.sessions import (
    SESSIONS_DEFAULT,
    SESSIONS_MAX,
    MqttSessionsView,
    MqttSessionView,
    SessionQuery,
)

SESSIONS: Final = Operations()

CLIENT_ID: Final = TextParameter("client_id", "pattern; `*` stands for any characters, `?` for one", 65_535)
CONNECTED: Final = Parameter("connected", "1: only those whose clients are connected; 0: only others", 0, 1)
SESSIONS_NUMBERS: Final = (
    Parameter("after", "sessions to skip", 0, 2**31 - 1, 0),
    Parameter("limit", "maximum number of sessions to return", 1, SESSIONS_MAX, SESSIONS_DEFAULT),
)
NO_SESSION: Final = Answer(404, "No client of that identifier has an MQTT session", PROBLEM)


@SESSIONS.operation(
    "GET",
    "/mqtt-sessions",
    Answer(200, "A page of sessions, by client identifier", MqttSessionsView),
    INVALID_PARAMETER,
    parameters=(CLIENT_ID, CONNECTED, *SESSIONS_NUMBERS),
)
async def list_mqtt_sessions(node: NodeInterface, request: Request) -> Response:
    """MQTT sessions, of connected clients and of those that are away, with what waits for them."""
    connected = whole_number(request, CONNECTED)
    after, limit = (whole_number(request, each) or 0 for each in SESSIONS_NUMBERS)
    question = SessionQuery(
        client_id=text(request, CLIENT_ID) or "",
        connected=None if connected is None else bool(connected),
        after=after,
        limit=limit,
    )
    return view_answer(await node.list_sessions(question))


@SESSIONS.operation("GET", "/mqtt-sessions/{client_id}", Answer(200, "The session", MqttSessionView), NO_SESSION)
async def show_mqtt_session(node: NodeInterface, request: Request) -> Response:
    """One MQTT session. `/clients/{name}/subscriptions` has its subscriptions."""
    return view_answer(await node.show_session(path_name(request, "client_id")))


@SESSIONS.operation(
    "DELETE",
    "/mqtt-sessions/{client_id}",
    Answer(204, "Ended"),
    NO_SESSION,
    Answer(409, "The session is moving to another broker of the machine", PROBLEM),
)
async def delete_mqtt_session(node: NodeInterface, request: Request) -> Response:
    """End an MQTT session as its expiry would: subscriptions and waiting messages are gone, its will is published.

    Its client is disconnected with reason code 0x98, and may connect again.
    """
    await node.delete_session(path_name(request, "client_id"))
    return Response(status_code=204)


TOPIC: Final = TextParameter(
    "topic", "topic filter of MQTT, or pattern: `*` stands for any characters, `?` for one", 65_535
)
RETAINED_NUMBERS: Final = (
    Parameter("after", "messages to skip", 0, 2**31 - 1, 0),
    Parameter("limit", "maximum number of messages to return", 1, RETAINED_MAX, RETAINED_DEFAULT),
)
NOTHING_RETAINED: Final = Answer(404, "Nothing is retained on that topic", PROBLEM)


@SESSIONS.operation(
    "GET",
    "/retained-messages",
    Answer(200, "A page of retained messages, by topic", RetainedMessagesView),
    INVALID_PARAMETER,
    parameters=(TOPIC, *RETAINED_NUMBERS),
)
async def list_retained_messages(node: NodeInterface, request: Request) -> Response:
    """Retained messages, without their payloads."""
    after, limit = (whole_number(request, each) or 0 for each in RETAINED_NUMBERS)
    question = RetainedQuery(topic=text(request, TOPIC) or "", after=after, limit=limit)
    return view_answer(await node.list_retained(question))


@SESSIONS.operation(
    "GET",
    "/retained-messages/{topic}",
    Answer(200, "The message", RetainedContentView),
    NOTHING_RETAINED,
)
async def show_retained_message(node: NodeInterface, request: Request) -> Response:
    """The retained message of one topic, with its payload."""
    return view_answer(await node.show_retained(path_name(request, "topic")))


@SESSIONS.operation("DELETE", "/retained-messages/{topic}", Answer(204, "Deleted"), NOTHING_RETAINED, REFUSED)
async def delete_retained_message(node: NodeInterface, request: Request) -> Response:
    """Delete the retained message of a topic, at neighbor brokers as well; subscribers are not told."""
    await node.delete_retained(path_name(request, "topic"))
    return Response(status_code=204)
