"""Operations on the messages of a queue: browse them, delete, move and copy some, re-drive dead ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from sluicegate.actors.messages.operations import COPY, DELETE, MOVE, REDRIVE
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
from sluicegate.gateway.admin.rest.schemas import fixed, list_of
from sluicegate.gateway.admin.rest.vpn.queues import NO_QUEUE
from sluicegate.gateway.operations.interface import NodeInterface
from sluicegate.gateway.views.adapters import adapter
from sluicegate.gateway.views.queues.messages import MessageSearchView, MessageView, RedriveView, TakenView
from sluicegate.gateway.views.queues.selections import (
    CONDITIONS,
    FIELDS_OF_DELETE,
    FIELDS_OF_MOVE,
    FIELDS_OF_REDRIVE,
    FIELDS_OF_RETURN,
    SCAN_DEFAULT,
    SCAN_MAX,
    SECONDS_MAX,
    SELECTION_SCHEMA,
    START,
    position_of,
    selection_from_dict,
)
from sluicegate.messaging.queues.attributes import quoted
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
        if request.method == "HEAD":  # the body of a GET would be endless; HEAD has none
            await node.browse_queue(path_name(request), partition=partition, limit=1, selector=selector)
            answer = Response(media_type=LINES_TYPE)
            del answer.headers["content-length"]
            return answer
        followed = await node.follow_queue(path_name(request), partition=partition, after=after or 0, selector=selector)
        lines = (adapter(MessageView).dump_json(message) + b"\n" async for message in followed)
        return StreamingResponse(lines, media_type=LINES_TYPE)
    messages = await node.browse_queue(
        path_name(request), partition=partition, after=after or 0, limit=limit or 1, selector=selector
    )
    return view_answer(_Messages(messages))


SEARCH_NUMBERS: Final = (
    Parameter("partition", "search this partition only", 0, 999),
    Parameter("limit", "maximum number of messages to return", 1, MESSAGES_MAX, MESSAGES_DEFAULT),
    Parameter("scan", "maximum number of messages to examine", 1, SCAN_MAX, SCAN_DEFAULT),
)
AGE: Final = Parameter("older_than_s", "seconds they have been in the queue; 0: any", 0, SECONDS_MAX, 0)
SEARCH_TEXTS: Final = tuple(
    TextParameter(each, str(SELECTION_SCHEMA[each]["description"]), SELECTOR_CHARS_MAX)
    for each in CONDITIONS
    if each != AGE.name
)
POSITION: Final = TextParameter("position", "search behind this message: `position` of the answer before", 40)


@MESSAGES.operation(
    "GET",
    "/queues/{name}/search",
    Answer(200, "Messages, and where the next request goes on", MessageSearchView),
    NO_QUEUE,
    REFUSED,
    INVALID_PARAMETER,
    parameters=(*SEARCH_TEXTS, AGE, *SEARCH_NUMBERS, POSITION),
)
async def search_queue(node: NodeInterface, request: Request) -> Response:
    """Search messages by key, properties, topic, time and death, oldest first in each partition; removes none."""
    asked: dict[str, object] = {each.name: text(request, each) for each in SEARCH_TEXTS}
    asked[AGE.name] = whole_number(request, AGE)
    partition, limit, scan = (whole_number(request, each) for each in SEARCH_NUMBERS)
    given = text(request, POSITION)
    view = await node.search_queue(
        path_name(request),
        selection_from_dict(asked, CONDITIONS),
        partition=partition,
        position=START if given is None else position_of(given),
        limit=limit or 1,
        scan=scan or 1,
    )
    return view_answer(view)


@MESSAGES.operation(
    "POST",
    "/queues/{name}/messages/redrive",
    Answer(200, "How many were moved back, and how many were not", TakenView),
    NO_QUEUE,
    *BAD_BODY,
    body=_selection("ReturnMessages", FIELDS_OF_RETURN),
)
async def redrive_messages(node: NodeInterface, request: Request) -> Response:
    """Return chosen dead messages to the queues that dead-lettered them, or to another, as they were published."""
    selection = selection_from_dict(await json_object(request), FIELDS_OF_RETURN)
    return view_answer(await node.take_messages(path_name(request), REDRIVE, selection))


REPUBLISH: Final = fixed(
    "RepublishMessages",
    {
        "type": "object",
        "properties": {
            "ids": SELECTION_SCHEMA["ids"],
            "remove": {"type": "boolean", "default": False, "description": "delete each when its copy is safe"},
        },
        "required": ["ids"],
        "additionalProperties": False,
    },
)


@MESSAGES.operation(
    "POST",
    "/queues/{name}/messages/republish",
    Answer(200, "How many were published again, and how many were not", TakenView),
    NO_QUEUE,
    *BAD_BODY,
    body=REPUBLISH,
)
async def republish_messages(node: NodeInterface, request: Request) -> Response:
    """Publish messages again to where they were published, their topics or queues, without the death they died."""
    body = await json_object(request)
    remove = body.pop("remove", False)
    if not isinstance(remove, bool):
        raise QueueInvalid("remove", f"{quoted(remove)} is not allowed", "true or false")
    ids = selection_from_dict(body, ("ids",)).ids
    if ids is None:
        raise QueueInvalid("ids", "they are missing", "a list of message ids")
    return view_answer(await node.republish_messages(path_name(request), ids, remove=remove))


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
