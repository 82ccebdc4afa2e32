"""Operations on queues: their definitions, purge and replay, durable cursors, durable selectors, queue templates."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import orjson
from starlette.requests import Request
from starlette.responses import Response

from sluicegate.gateway.admin.operation import (
    BAD_BODY,
    INVALID,
    INVALID_PARAMETER,
    PROBLEM,
    REFUSED,
    Answer,
    JsonSchema,
    NamedSchema,
    Operations,
    Parameter,
    TextParameter,
)
from sluicegate.gateway.admin.requests import (
    json_answer,
    json_object,
    made_answer,
    path_name,
    sequence,
    text,
    view_answer,
    view_json,
    whole_number,
)
from sluicegate.gateway.admin.rest.schemas import (
    TEXTS,
    count_of,
    fixed,
    list_of,
    queue_attributes,
    template_attributes,
    type_definitions,
)
from sluicegate.gateway.observability.statistics import ReaderBatch
from sluicegate.gateway.operations.interface import NodeInterface, template_of
from sluicegate.gateway.views.errors import SubscriptionAlreadyExists
from sluicegate.gateway.views.node.figures import QUEUES_DEFAULT, QUEUES_MAX, QueuesFigures, QueuesQuery
from sluicegate.gateway.views.queues.attributes import QUEUE_CONFIG_SCHEMA
from sluicegate.gateway.views.queues.cursors import CursorView
from sluicegate.gateway.views.queues.queues import DurableSelectorView, NetworkQueueView, QueueMoveView, QueueView
from sluicegate.gateway.views.queues.selections import ALLOWED, SEQUENCE_MAX, replay_start
from sluicegate.messaging.queues.attributes import quoted
from sluicegate.messaging.queues.definition import QueueInvalid
from sluicegate.messaging.queues.template import DURABILITY_OVERRIDES, template_from_dict

QUEUES: Final = Operations()

NO_QUEUE: Final = Answer(404, "No queue has that name", PROBLEM)
NO_CURSOR: Final = Answer(404, "No such queue or cursor", PROBLEM)
NO_TEMPLATE: Final = Answer(404, "No queue template has that name", PROBLEM)

# Schemas of bodies and responses.


def _definition() -> dict[str, JsonSchema]:
    properties: JsonSchema = {
        "name": {"type": "string", "description": "may be omitted for a temporary queue"},
        "durable": {"type": "boolean", "description": "false: temporary, kept in memory only"},
        **queue_attributes(),
    }
    return {"QueueDefinition": {"type": "object", "properties": properties, "additionalProperties": False}}


def _changes() -> dict[str, JsonSchema]:
    return {"QueueChanges": {"type": "object", "properties": queue_attributes(), "additionalProperties": False}}


def _template() -> dict[str, JsonSchema]:
    properties: JsonSchema = {"name": {"type": "string"}, **_template_properties()}
    schema: JsonSchema = {
        "type": "object",
        "properties": properties,
        "required": ["name", "queue_name_filter"],
        "additionalProperties": False,
    }
    return {"QueueTemplate": schema}


def _template_changes() -> dict[str, JsonSchema]:
    properties = _template_properties()
    return {"QueueTemplateChanges": {"type": "object", "properties": properties, "additionalProperties": False}}


def _template_properties() -> JsonSchema:
    names = "queue names; `*` stands for a level or its rest, a final `>` for one or more levels"
    return {
        "queue_name_filter": {"type": "string", "description": names},
        "durability_override": {"type": "string", "enum": list(DURABILITY_OVERRIDES)},
        **template_attributes(),
    }


def _queue_view() -> dict[str, JsonSchema]:
    return type_definitions(QueueView) | {"QueueConfig": QUEUE_CONFIG_SCHEMA}


QUEUE: Final = NamedSchema("QueueView", _queue_view)
TEMPLATE: Final = NamedSchema("QueueTemplate", _template)
SELECTORS: Final[JsonSchema] = {
    "type": "object",
    "properties": {"selectors": {**TEXTS, "description": "an empty text selects everything"}},
    "required": ["selectors"],
    "additionalProperties": False,
}
MOVE: Final[JsonSchema] = {
    "type": "object",
    "properties": {
        "to": {"type": "string", "description": "name of the broker that gets the queue"},
        "drop_kept": {"type": "boolean", "description": "delete its kept messages and durable cursors, which stay"},
    },
    "required": ["to"],
    "additionalProperties": False,
}
REPLAY: Final[JsonSchema] = {
    "type": "object",
    "properties": {
        "from": {"type": "string", "description": ALLOWED},
        "to": {"type": "integer", "description": "stop before this sequence; default: replay everything"},
        "partition": {"type": "integer", "description": "only this partition"},
    },
    "required": ["from"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class _Queues:
    queues: Sequence[QueueView]


@dataclass(frozen=True, slots=True)
class _NetworkQueues:
    queues: Sequence[NetworkQueueView]


@dataclass(frozen=True, slots=True)
class _Moves:
    moves: Sequence[QueueMoveView]


@dataclass(frozen=True, slots=True)
class _Cursors:
    cursors: Sequence[CursorView]


@dataclass(frozen=True, slots=True)
class _Selectors:
    selectors: Sequence[DurableSelectorView]


# Definitions.


@QUEUES.operation("GET", "/queues", Answer(200, "By name", list_of("Queues", "queues", QueueView)))
async def list_queues(node: NodeInterface, request: Request) -> Response:
    """Every queue."""
    return view_answer(_Queues(await node.list_queues()))


@QUEUES.operation(
    "GET", "/network/queues", Answer(200, "By name", list_of("NetworkQueues", "queues", NetworkQueueView))
)
async def list_network_queues(node: NodeInterface, request: Request) -> Response:
    """The queues of neighbor brokers, which clients of this one reach by their names."""
    return view_answer(_NetworkQueues(await node.list_network_queues()))


@QUEUES.operation(
    "POST",
    "/queues",
    Answer(201, "Created", QUEUE),
    Answer(409, "It exists already, or the node refuses", PROBLEM),
    *BAD_BODY,
    body=NamedSchema("QueueDefinition", _definition),
)
async def create_queue(node: NodeInterface, request: Request) -> Response:
    """Create a queue; attributes that are left out come from the template that matches its name."""
    asked = await json_object(request)
    durable = asked.pop("durable", None)
    if durable is not None and not isinstance(durable, bool):
        raise QueueInvalid("durable", f"{quoted(durable)} is not allowed", "true or false")
    view = await node.create_queue(asked, durable=durable)
    return made_answer(request, view.name, view_json(view))


@QUEUES.operation("GET", "/queues/{name}", Answer(200, "The queue", QUEUE), NO_QUEUE)
async def show_queue(node: NodeInterface, request: Request) -> Response:
    """One queue with its partitions and flows."""
    return view_answer(await node.show_queue(path_name(request)))


@QUEUES.operation(
    "PATCH",
    "/queues/{name}",
    Answer(200, "As it is now", QUEUE),
    NO_QUEUE,
    REFUSED,
    *BAD_BODY,
    body=NamedSchema("QueueChanges", _changes),
)
async def update_queue(node: NodeInterface, request: Request) -> Response:
    """Change attributes, or replace the list of subscriptions; all of the changes are made, or none."""
    changes = await json_object(request)
    return view_answer(await node.update_queue(path_name(request), changes))


@QUEUES.operation("DELETE", "/queues/{name}", Answer(204, "Deleted"), NO_QUEUE, REFUSED)
async def delete_queue(node: NodeInterface, request: Request) -> Response:
    """Delete a queue and its messages."""
    await node.delete_queue(path_name(request))
    return Response(status_code=204)


# Subscriptions, one at a time.


@QUEUES.operation(
    "PUT",
    "/queues/{name}/subscriptions/{topic}",
    Answer(204, "The queue has it"),
    NO_QUEUE,
    REFUSED,
    INVALID,
)
async def add_subscription(node: NodeInterface, request: Request) -> Response:
    """Add a subscription to a queue; one that the queue has already stays."""
    with suppress(SubscriptionAlreadyExists):
        await node.add_subscription(path_name(request), path_name(request, "topic"))
    return Response(status_code=204)


@QUEUES.operation(
    "DELETE",
    "/queues/{name}/subscriptions/{topic}",
    Answer(204, "Removed"),
    Answer(404, "No such queue or subscription", PROBLEM),
    REFUSED,
)
async def remove_subscription(node: NodeInterface, request: Request) -> Response:
    """Remove a subscription from a queue; messages that it brought stay."""
    await node.remove_subscription(path_name(request), path_name(request, "topic"))
    return Response(status_code=204)


# Messages as a whole.


@QUEUES.operation(
    "POST",
    "/queues/{name}/purge",
    Answer(200, "The number of messages", count_of("Purged", "purged_count")),
    NO_QUEUE,
    REFUSED,
)
async def purge_queue(node: NodeInterface, request: Request) -> Response:
    """Delete all messages that are not delivered; messages that consumers hold stay."""
    return json_answer(orjson.dumps({"purged_count": await node.purge_queue(path_name(request))}))


@QUEUES.operation(
    "POST",
    "/queues/{name}/replay",
    Answer(200, "The number of messages", count_of("Replayed", "replayed_count")),
    NO_QUEUE,
    REFUSED,
    *BAD_BODY,
    body=fixed("Replay", REPLAY),
)
async def replay_queue(node: NodeInterface, request: Request) -> Response:
    """Deliver settled messages that the queue still keeps again, before newer ones."""
    body = await json_object(request)
    for key in body:
        if key not in ("from", "to", "partition"):
            raise QueueInvalid(key, "unknown member", "from, to, partition")
    start = replay_start(str(body.get("from", "")))
    end, partition = sequence(body, "to"), sequence(body, "partition")
    count = await node.replay_queue(
        path_name(request), start, end=SEQUENCE_MAX if end is None else end, partition=partition
    )
    return json_answer(orjson.dumps({"replayed_count": count}))


QUEUE_NAME_PARAMETER: Final = TextParameter("name", "pattern; `*` stands for any characters, `?` for one", 250)
QUEUES_NUMBERS: Final = (
    Parameter("named", "1: without the queues of sessions and shared subscriptions", 0, 1, 0),
    Parameter("after", "queues to skip", 0, 2**31 - 1, 0),
    Parameter("limit", "maximum number of queues to return", 1, QUEUES_MAX, QUEUES_DEFAULT),
)


@QUEUES.operation(
    "GET",
    "/figures/queues",
    Answer(200, "A page of queues, by name", QueuesFigures),
    INVALID_PARAMETER,
    parameters=(QUEUE_NAME_PARAMETER, *QUEUES_NUMBERS),
)
async def queues_figures(node: NodeInterface, request: Request) -> Response:
    """Figures of each queue: waiting messages, messages in flight, totals."""
    named, after, limit = (whole_number(request, each) or 0 for each in QUEUES_NUMBERS)
    name = text(request, QUEUE_NAME_PARAMETER) or ""
    question = QueuesQuery(name=name, is_named_only=bool(named), after=after, limit=limit)
    return view_answer(await node.queues_figures(question))


# Moves to other brokers of the network.


@QUEUES.operation("GET", "/network/moves", Answer(200, "By name", list_of("QueueMoves", "moves", QueueMoveView)))
async def list_moves(node: NodeInterface, request: Request) -> Response:
    """The queues of this broker that are being moved to other brokers, and how far each move is."""
    return view_answer(_Moves(await node.list_moves()))


@QUEUES.operation(
    "PUT",
    "/queues/{name}/move",
    Answer(202, "The move has begun"),
    NO_QUEUE,
    REFUSED,
    *BAD_BODY,
    body=fixed("QueueMoveTo", MOVE),
)
async def move_queue(node: NodeInterface, request: Request) -> Response:
    """Move a queue with its messages to another broker of the network, while its clients go on."""
    body = await json_object(request)
    to, drop_kept = body.pop("to", None), body.pop("drop_kept", False)
    if not isinstance(to, str):
        raise QueueInvalid("to", f"{quoted(to)} is not allowed", "name of a neighbor broker")
    if not isinstance(drop_kept, bool):
        raise QueueInvalid("drop_kept", f"{quoted(drop_kept)} is not allowed", "true or false")
    for key in body:
        raise QueueInvalid(key, "unknown member", "to, drop_kept")
    await node.move_queue(path_name(request), to, drop_kept=drop_kept)
    return Response(status_code=202)


WITHOUT: Final = TextParameter("without", "broker of the move that does not come back: what only it has is lost", 64)


@QUEUES.operation(
    "DELETE",
    "/queues/{name}/move",
    Answer(204, "The queue stays"),
    NO_QUEUE,
    REFUSED,
    INVALID_PARAMETER,
    parameters=(WITHOUT,),
)
async def cancel_move(node: NodeInterface, request: Request) -> Response:
    """End the move of a queue; refused when messages of it are at the other broker already."""
    without = text(request, WITHOUT)
    if without:
        await node.end_move(path_name(request), without)
    else:
        await node.cancel_move(path_name(request))
    return Response(status_code=204)


# Durable cursors.


@QUEUES.operation(
    "GET",
    "/queues/{name}/cursors",
    Answer(200, "By name", list_of("Cursors", "cursors", CursorView)),
    NO_QUEUE,
)
async def list_cursors(node: NodeInterface, request: Request) -> Response:
    """The queue's durable cursors, with their positions."""
    return view_answer(_Cursors(await node.list_cursors(path_name(request))))


@QUEUES.operation(
    "DELETE",
    "/queues/{name}/cursors/{cursor}",
    Answer(204, "Deleted"),
    NO_CURSOR,
    REFUSED,
)
async def delete_cursor(node: NodeInterface, request: Request) -> Response:
    """Delete a durable cursor with its position; messages kept only for it are released."""
    await node.delete_cursor(path_name(request), path_name(request, "cursor"))
    return Response(status_code=204)


@QUEUES.operation(
    "PUT",
    "/queues/{name}/cursors/{cursor}/batch",
    Answer(204, "Counted"),
    NO_CURSOR,
    REFUSED,
    *BAD_BODY,
    body=ReaderBatch,
)
async def add_batch(node: NodeInterface, request: Request) -> Response:
    """Report the last batch that a cursor's reader has read, for the metrics; a repeated batch counts once."""
    batch = ReaderBatch.of_json(await json_object(request))
    await node.add_batch(path_name(request), path_name(request, "cursor"), batch)
    return Response(status_code=204)


# Durable selectors of selector-aware virtual topics.


@QUEUES.operation(
    "GET",
    "/durable-selectors",
    Answer(200, "By queue and subscriber", list_of("DurableSelectors", "selectors", DurableSelectorView)),
)
async def list_selectors(node: NodeInterface, request: Request) -> Response:
    """The selectors of consumers of selector-aware virtual topics, connected or not."""
    return view_answer(_Selectors(await node.list_selectors()))


@QUEUES.operation(
    "PUT",
    "/queues/{name}/selectors/{subscriber}",
    Answer(204, "Set"),
    NO_QUEUE,
    REFUSED,
    *BAD_BODY,
    body=fixed("SetSelectors", SELECTORS),
)
async def put_selector(node: NodeInterface, request: Request) -> Response:
    """Set a subscriber's selectors; they hold until it subscribes with another selector."""
    selectors = (await json_object(request)).get("selectors")
    if not isinstance(selectors, list) or not all(isinstance(each, str) for each in selectors):
        raise QueueInvalid("selectors", f"{quoted(selectors)} is not allowed", "a list of texts")
    await node.put_selector(path_name(request), path_name(request, "subscriber"), selectors)
    return Response(status_code=204)


@QUEUES.operation(
    "DELETE",
    "/queues/{name}/selectors/{subscriber}",
    Answer(204, "Deleted"),
    Answer(404, "No such queue or subscriber", PROBLEM),
)
async def delete_selector(node: NodeInterface, request: Request) -> Response:
    """Delete a subscriber's selectors; while it is not connected, no messages are collected for it."""
    await node.delete_selector(path_name(request), path_name(request, "subscriber"))
    return Response(status_code=204)


# Queue templates: attributes for queues that are created later.


@QUEUES.operation("GET", "/queue-templates", Answer(200, "By name", list_of("QueueTemplates", "templates", TEMPLATE)))
async def list_templates(node: NodeInterface, request: Request) -> Response:
    """Every queue template."""
    templates = [template.to_dict() for template in await node.list_templates()]
    return json_answer(orjson.dumps({"templates": templates}))


@QUEUES.operation(
    "POST",
    "/queue-templates",
    Answer(201, "Created", TEMPLATE),
    Answer(409, "It exists already, or the node refuses", PROBLEM),
    *BAD_BODY,
    body=TEMPLATE,
)
async def create_template(node: NodeInterface, request: Request) -> Response:
    """Create a queue template: matching queues get the attributes that their creator does not set from it."""
    template = template_from_dict(await json_object(request))
    await node.put_template(template, must_be_new=True)
    return made_answer(request, template.name, orjson.dumps(template.to_dict()))


@QUEUES.operation("GET", "/queue-templates/{name}", Answer(200, "The template", TEMPLATE), NO_TEMPLATE)
async def show_template(node: NodeInterface, request: Request) -> Response:
    """One queue template."""
    return json_answer(orjson.dumps((await template_of(node, path_name(request))).to_dict()))


@QUEUES.operation(
    "PATCH",
    "/queue-templates/{name}",
    Answer(200, "As it is now", TEMPLATE),
    NO_TEMPLATE,
    REFUSED,
    *BAD_BODY,
    body=NamedSchema("QueueTemplateChanges", _template_changes),
)
async def update_template(node: NodeInterface, request: Request) -> Response:
    """Change fields; null removes an attribute. Queues created from it stay as they are."""
    template = await node.update_template(path_name(request), await json_object(request))
    return json_answer(orjson.dumps(template.to_dict()))


@QUEUES.operation(
    "DELETE",
    "/queue-templates/{name}",
    Answer(204, "Deleted"),
    NO_TEMPLATE,
    REFUSED,
)
async def delete_template(node: NodeInterface, request: Request) -> Response:
    """Delete a queue template; queues created from it stay as they are."""
    await node.delete_template(path_name(request))
    return Response(status_code=204)
