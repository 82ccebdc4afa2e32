"""Operations that publish messages, and that show messages on topics as they are published."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from sluicegate.gateway.admin.operation import (
    BAD_BODY,
    INVALID_PARAMETER,
    REFUSED,
    Answer,
    Operations,
    TextParameter,
)
from sluicegate.gateway.admin.requests import json_object, text, view_answer
from sluicegate.gateway.admin.rest.schemas import fixed
from sluicegate.gateway.admin.rest.vpn.messages import LINES_TYPE
from sluicegate.gateway.config.sections.admin import AccessLevel
from sluicegate.gateway.operations.interface import NodeInterface
from sluicegate.gateway.views.adapters import adapter
from sluicegate.gateway.views.clients.messaging import (
    PUBLISH_PROPERTIES,
    PublishedView,
    WatchedMessageView,
    message_from_dict,
)

PUBLISHING: Final = Operations()

TOPIC: Final = TextParameter("topic", "topic filter, in MQTT or SMF syntax", 65_535, required=True)
BODY: Final = fixed(
    "PublishMessage", {"type": "object", "properties": PUBLISH_PROPERTIES, "additionalProperties": False}
)


@PUBLISHING.operation(
    "POST",
    "/publish",
    Answer(200, "How many were published, and why the others were not", PublishedView),
    *BAD_BODY,
    body=BODY,
)
async def publish(node: NodeInterface, request: Request) -> Response:
    """Publish a message to a topic or queue, once or several times; answered when all are safe or refused."""
    return view_answer(await node.publish_message(message_from_dict(await json_object(request))))


@PUBLISHING.operation(
    "GET",
    "/watch",
    Answer(200, "One message per line, from now on, until the client disconnects", WatchedMessageView, LINES_TYPE),
    INVALID_PARAMETER,
    REFUSED,
    parameters=(TOPIC,),
    level=AccessLevel.READ_WRITE,
)
async def watch(node: NodeInterface, request: Request) -> Response:
    """Watch topics: messages as they are published, as JSON lines. What comes too fast is dropped and counted."""
    topic = text(request, TOPIC) or ""
    if request.method == "HEAD":  # the body of a GET would be endless; HEAD has none
        answer = Response(media_type=LINES_TYPE)
        del answer.headers["content-length"]
        return answer
    watched = await node.watch_topics(topic)
    lines = (adapter(WatchedMessageView).dump_json(message) + b"\n" async for message in watched)
    return StreamingResponse(lines, media_type=LINES_TYPE)
