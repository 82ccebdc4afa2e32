"""Operations on the messages of a queue: browse them, delete, move and copy some, re-drive dead ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from sluicegate.actors.messages.operations import COPY, DELETE, MOVE
from sluicegate.gateway.admin.operation import (
    BAD_BODY,
    INVALID_PARAMETER,
    REFUSED,
    Answer,
    JsonSchema,
    NamedSchema,
    Operations,
    Parameter,
    TextParameter,
)
from sluicegate.gateway.admin.requests import json_object, path_name, text, view_answer, whole_number
from sluicegate.gateway.admin.rest.queues import NO_QUEUE
from sluicegate.gateway.admin.rest.schemas import fixed, list_of
from sluicegate.gateway.operations.interface import NodeInterface
from sluicegate.gateway.views.adapters import adapter
from sluicegate.gateway.views.queues.messages import MessageView, RedriveView, TakenView
from sluicegate.gateway.views.queues.selections import (
    FIELDS_OF_DELETE,
    FIELDS_OF_MOVE,
    FIELDS_OF_REDRIVE,
    SELECTION_SCHEMA,
    selection_from_dict,
)
from sluicegate.messaging.queues.definition import QueueInvalid
from sluicegate.messaging.selectors.lexer import SELECTOR_CHARS_MAX

LINES_TYPE: Final = "application/x-ndjson"
MESSAGES_MAX: Final = 1000  # one page of a browse
MESSAGES_DEFAULT: Final = 100

BROWSE_PARAMETERS: Final = (
    Parameter("partition", "read this partition only", 0, 999),
    Parameter("after", "return messages after this sequence", 0, 2**63 - 1, 0),
    Parameter("limit", "maximum number of messages to return", 1, MESSAGES_MAX, MESSAGES_DEFAULT),
)
SELECTOR_PARAMETER: Final = TextParameter("selector", "only messages that this selector selects", SELECTOR_CHARS_MAX)
FOLLOW: Final = Parameter(
    "follow", "1: stream new messages, one JSON object per line, until the client disconnects", 0, 1, 0
)

MESSAGES: Final = Operations()


@dataclass(frozen=True, slots=True)
class _Messages:
    messages: Sequence[MessageView]


def _selection(name: str, fields: tuple[str, ...], *required: str) -> NamedSchema:
    """Return the schema of a body that selects messages."""
    properties: JsonSchema = {field: SELECTION_SCHEMA[field] for field in fields}
    if "rate" in fields:
        properties["limit"] = {**SELECTION_SCHEMA["limit"], "minimum": 0, "default": 0}
    schema: JsonSchema = {"type": "object", "properties": properties, "additionalProperties": False}
    return fixed(name, {**schema, "required": list(required)} if required else schema)


MOVE_BODY: Final = _selection("MoveMessages", FIELDS_OF_MOVE, "to")


@MESSAGES.operation(
    "GET",
    "/queues/{name}/messages",
    Answer(
        200,
        "One page; with `follow=1`, one MessageView per line (application/x-ndjson)",
        list_of("Messages", "messages", MessageView),
    ),
    NO_QUEUE,
    INVALID_PARAMETER,
    parameters=(*BROWSE_PARAMETERS, SELECTOR_PARAMETER, FOLLOW),
)
async def browse_queue(node: NodeInterface, request: Request) -> Response:
    """Browse messages, oldest first."""
    partition, after, limit = (whole_number(request, parameter) for parameter in BROWSE_PARAMETERS)
    selector = text(request, SELECTOR_PARAMETER) or ""
    if whole_number(request, FOLLOW):
        followed = await node.follow_queue(path_name(request), partition=partition, after=after or 0, selector=selector)
        if request.method == "HEAD":  # the body of a GET would be endless; HEAD has none
            answer = Response(media_type=LINES_TYPE)
            del answer.headers["content-length"]
            return answer
        lines = (adapter(MessageView).dump_json(message) + b"\n" async for message in followed)
        return StreamingResponse(lines, media_type=LINES_TYPE)
    messages = await node.browse_queue(
        path_name(request), partition=partition, after=after or 0, limit=limit or 1, selector=selector
    )
    return view_answer(_Messages(messages))


@MESSAGES.operation(
    "POST",
    "/queues/{name}/messages/delete",
    Answer(200, "How many were deleted, and how many were not", TakenView),
    NO_QUEUE,
    *BAD_BODY,
    body=_selection("DeleteMessages", FIELDS_OF_DELETE),
)
async def delete_messages(node: NodeInterface, request: Request) -> Response:
    """Delete messages, by id or by properties; messages that a consumer holds stay."""
    return await _take(node, request, DELETE, FIELDS_OF_DELETE)


@MESSAGES.operation(
    "POST",
    "/queues/{name}/messages/move",
    Answer(200, "How many were moved, and how many were not", TakenView),
    NO_QUEUE,
    *BAD_BODY,
    body=MOVE_BODY,
)
async def move_messages(node: NodeInterface, request: Request) -> Response:
    """Move messages to another queue, each atomically; messages that it refuses stay."""
    return await _take(node, request, MOVE, FIELDS_OF_MOVE)


@MESSAGES.operation(
    "POST",
    "/queues/{name}/messages/copy",
    Answer(200, "How many were copied, and how many were not", TakenView),
    NO_QUEUE,
    *BAD_BODY,
    body=MOVE_BODY,
)
async def copy_messages(node: NodeInterface, request: Request) -> Response:
    """Copy messages to another queue, as if they were published to it."""
    return await _take(node, request, COPY, FIELDS_OF_MOVE)


async def _take(node: NodeInterface, request: Request, action: str, fields: tuple[str, ...]) -> Response:
    selection = selection_from_dict(await json_object(request), fields)
    if "to" in fields and not selection.to:
        raise QueueInvalid("to", "it is missing", "the name of a durable queue")
    return view_answer(await node.take_messages(path_name(request), action, selection))


@MESSAGES.operation(
    "POST",
    "/queues/{name}/redrive",
    Answer(202, "It has started", RedriveView),
    NO_QUEUE,
    REFUSED,
    *BAD_BODY,
    body=_selection("RedriveMessages", FIELDS_OF_REDRIVE),
)
async def start_redrive(node: NodeInterface, request: Request) -> Response:
    """Return dead messages to the queues that dead-lettered them, as they were published."""
    selection = selection_from_dict(await json_object(request), FIELDS_OF_REDRIVE)
    return view_answer(await node.start_redrive(path_name(request), selection), status=202)


@MESSAGES.operation(
    "GET",
    "/queues/{name}/redrive",
    Answer(200, "Its progress", RedriveView),
    NO_QUEUE,
    REFUSED,
)
async def show_redrive(node: NodeInterface, request: Request) -> Response:
    """The progress of the latest re-drive."""
    return view_answer(await node.show_redrive(path_name(request)))


@MESSAGES.operation(
    "DELETE",
    "/queues/{name}/redrive",
    Answer(200, "Its final state", RedriveView),
    NO_QUEUE,
    REFUSED,
)
async def cancel_redrive(node: NodeInterface, request: Request) -> Response:
    """Cancel a re-drive; another one continues from there."""
    return view_answer(await node.cancel_redrive(path_name(request)))
