"""SEMP's actions on queues, messages and clients, which change no configuration.

No action clears counters: the counters of a node only grow, as monitoring tools expect.
"""

from collections.abc import Sequence
from typing import Final

from starlette.requests import Request

from sluicegate.actors.messages.operations import COPY, DELETE
from sluicegate.gateway.admin.requests import json_object, path_name
from sluicegate.gateway.admin.semp.envelope import Asked, Document, Performing, SempOperation, answer_of_done
from sluicegate.gateway.admin.semp.errors import invalid_parameter, not_allowed, not_found
from sluicegate.gateway.admin.semp.messages import OBJECT_PATH, message_id
from sluicegate.gateway.admin.semp.objects.attributes import TEXT, Schema
from sluicegate.gateway.admin.semp.resources import CLIENTS, QUEUES
from sluicegate.gateway.operations.interface import NodeInterface
from sluicegate.gateway.views.queues.messages import TakenView
from sluicegate.gateway.views.queues.selections import SEQUENCE_MAX, MessageSelection, ReplayStart
from sluicegate.messaging.queues.attributes import quoted
from sluicegate.messaging.queues.definition import QueueInvalid
from sluicegate.messaging.queues.message_filter import MessageId, parse_message_id

SOURCE: Final = "sourceQueueName"
MESSAGE: Final = "replicationGroupMsgId"
LOG: Final = "replayLogName"
SINCE: Final = "fromTime"
AFTER: Final = "afterMsg"
SINCE_MAX: Final = SEQUENCE_MAX // 1000

_ID: Final[Schema] = {**TEXT, "description": "partition and sequence, such as `0:17`"}
_COPY: Final[dict[str, Schema]] = {SOURCE: {**TEXT, "description": "queue that contains the message"}, MESSAGE: _ID}
_REPLAY: Final[dict[str, Schema]] = {
    LOG: {**TEXT, "description": "name of the queue, because each queue keeps its own messages; optional"},
    SINCE: {
        "type": "integer",
        "minimum": 0,
        "maximum": SINCE_MAX,
        "description": "seconds since 1970; 0: all messages",
    },
    AFTER: {**_ID, "description": "start after this message, in its partition only"},
}


async def _delete_all(node: NodeInterface, request: Request, asked: Asked) -> Document:
    await _body(request, {})
    vpn, queue = _queue(node, request)
    await vpn.purge_queue(queue)
    return answer_of_done(asked)


async def _delete_one(node: NodeInterface, request: Request, asked: Asked) -> Document:
    await _body(request, {})
    vpn, queue = _queue(node, request)
    place = message_id(path_name(request, "msgId"))
    _check(await vpn.take_messages(queue, DELETE, MessageSelection(ids=(place,))), place)
    return answer_of_done(asked)


async def _copy(node: NodeInterface, request: Request, asked: Asked) -> Document:
    body = await _body(request, _COPY, required=tuple(_COPY))
    vpn, queue = _queue(node, request)
    place = _message_id(body, MESSAGE)
    _check(await vpn.take_messages(_text(body, SOURCE), COPY, MessageSelection(ids=(place,), to=queue)), place)
    return answer_of_done(asked)


async def _disconnect(node: NodeInterface, request: Request, asked: Asked) -> Document:
    await _body(request, {})
    await node.in_vpn(path_name(request, "msgVpnName")).disconnect_client(path_name(request, CLIENTS.kind.key))
    return answer_of_done(asked)


async def _replay(node: NodeInterface, request: Request, asked: Asked) -> Document:
    body = await _body(request, _REPLAY)
    vpn, queue = _queue(node, request)
    if body.get(LOG, queue) != queue:
        raise invalid_parameter(f"{LOG}: {body[LOG]!r} does not exist; allowed: {queue!r}, the log of the queue")
    if SINCE in body and AFTER in body:
        raise invalid_parameter(f"{SINCE}, {AFTER}: both are given; allowed: one of them")
    start, partition = ReplayStart(since_ms=_since_s(body) * 1000), None
    if AFTER in body:
        after = _message_id(body, AFTER)
        start, partition = ReplayStart(first=after.sequence + 1), after.partition
    await vpn.replay_queue(queue, start, end=SEQUENCE_MAX, partition=partition)
    return answer_of_done(asked)


def _queue(node: NodeInterface, request: Request) -> tuple[NodeInterface, str]:
    return node.in_vpn(path_name(request, "msgVpnName")), path_name(request, "queueName")


async def _body(request: Request, allowed: dict[str, Schema], *, required: Sequence[str] = ()) -> dict[str, object]:
    body = await json_object(request)
    for name in body:
        if name not in allowed:
            raise invalid_parameter(f"{name}: there is no such attribute; allowed: {', '.join(allowed) or 'none'}")
    for name in required:
        if name not in body:
            raise invalid_parameter(f"{name}: it is missing; allowed: {allowed[name]['description']}")
    return body


def _text(body: dict[str, object], name: str) -> str:
    value = body[name]
    if not isinstance(value, str) or not value:
        raise invalid_parameter(f"{name}: {quoted(value)} is not allowed; allowed: a text that is not empty")
    return value


def _message_id(body: dict[str, object], name: str) -> MessageId:
    try:
        return parse_message_id(_text(body, name))
    except QueueInvalid as wrong:
        raise invalid_parameter(f"{name}: {wrong.text}") from None


def _since_s(body: dict[str, object]) -> int:
    value = body.get(SINCE, 0)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= SINCE_MAX:
        raise invalid_parameter(
            f"{SINCE}: {quoted(value)} is not allowed; allowed: a whole number from 0 to {SINCE_MAX}"
        )
    return value


def _check(taken: TakenView, place: MessageId) -> None:
    """Raise SempError unless the action was done."""
    if taken.not_found:
        raise not_found(f"msg {place.text()!r}")
    if not taken.done_count:
        raise not_allowed(f"msg {place.text()!r} was not changed: {', '.join(taken.kept)}")


def _action(
    path: str, summary: str, perform: Performing, body: dict[str, Schema], required: Sequence[str] = ()
) -> SempOperation:
    schema = {"type": "object", "properties": body, "required": list(required), "additionalProperties": False}
    return SempOperation(method="PUT", path=path, summary=summary, perform=perform, body=schema)


ACTIONS: Final = (
    _action(f"{QUEUES.object_path}/deleteMsgs", "Delete all messages that are not delivered", _delete_all, {}),
    _action(f"{OBJECT_PATH}/delete", "Delete a message, unless a consumer holds it", _delete_one, {}),
    _action(
        f"{QUEUES.object_path}/copyMsgFromQueue",
        "Copy a message from another queue, as if it were published to this one",
        _copy,
        _COPY,
        tuple(_COPY),
    ),
    _action(
        f"{QUEUES.object_path}/startReplay",
        "Deliver settled messages that the queue keeps again",
        _replay,
        _REPLAY,
    ),
    _action(f"{CLIENTS.object_path}/disconnect", "Disconnect a client, on all protocols", _disconnect, {}),
)
