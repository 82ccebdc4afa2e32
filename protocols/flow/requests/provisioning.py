"""Carry out PROVISION, ALTER and DEPROVISION. The queue directory checks the rights.

Flow: provisioning.
"""

from typing import Final

import orjson

from sluicegate.actors.messages.data import StoreRefused
from sluicegate.actors.messages.directory import (
    DeclareQueue,
    DeleteQueue,
    FindQueue,
    PermissionDenied,
    QueueExists,
    QueueHandle,
    QueuesExhausted,
    UpdateQueue,
    UpdateRefused,
)
from sluicegate.messaging.clients.rights import ClientDenied
from sluicegate.messaging.queues.definition import QueueDefinition, QueueInvalid, changed, is_named
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec.codes import RequestRefused
from sluicegate.protocols.flow.codec.frame import ALTER, PROVISION
from sluicegate.protocols.flow.codec.frames.provision import (
    AS_TEMPLATES_SAY,
    DURABLE,
    TEMPORARY,
    Provision,
    Provisioned,
)
from sluicegate.protocols.flow.peer import FlowPeer

_DURABLE: Final[dict[int, bool | None]] = {AS_TEMPLATES_SAY: None, DURABLE: True, TEMPORARY: False}


async def answer_provision(peer: FlowPeer, request: Provision) -> bytes:
    """Return the answer to a request. Raises RequestRefused."""
    try:
        return (await _answer(peer, request)).encode()
    except QueueInvalid as invalid:
        raise RequestRefused(codes.REQUEST_INVALID, str(invalid)) from None
    except QueueExists as exists:
        raise RequestRefused(codes.ALREADY_EXISTS, str(exists)) from None
    except QueuesExhausted as exhausted:
        raise RequestRefused(codes.TOO_MANY, str(exhausted)) from None
    except UpdateRefused as refused:
        raise RequestRefused(codes.IN_USE, str(refused)) from None
    except StoreRefused as not_stored:
        raise RequestRefused(codes.NOT_STORED, str(not_stored)) from None
    except PermissionDenied as denied:
        raise RequestRefused(codes.PERMISSION_DENIED, str(denied)) from None
    except ClientDenied as beyond_rights:
        raise RequestRefused(codes.PERMISSION_DENIED, beyond_rights.text) from None


async def _answer(peer: FlowPeer, request: Provision) -> Provisioned:
    queues, rights = peer.services.queues, peer.identity.rights
    if request.kind == PROVISION:
        attributes = _attributes_of(request)
        if request.name:
            attributes["name"] = request.name
        if request.durability not in _DURABLE:
            text = f"durability {request.durability}; allowed: {DURABLE} durable, {TEMPORARY} temporary"
            raise RequestRefused(codes.REQUEST_INVALID, text)
        durable = _DURABLE[request.durability]
        made: QueueHandle = await queues.ask(DeclareQueue(attributes, durable, rights))
        return Provisioned(request.kind, request.request_id, made.name, orjson.dumps(made.definition.to_dict()))
    handle: QueueHandle | None = await queues.ask(FindQueue(request.name, rights))
    if handle is None or not is_named(request.name):
        raise RequestRefused(codes.NOT_FOUND, f"there is no queue {request.name!r}")
    if request.kind == ALTER:
        changes = _attributes_of(request)
        change = UpdateQueue(
            request.name, lambda queue: changed(queue.definition, changes, durable=queue.durable), rights
        )
        definition: QueueDefinition = await queues.ask(change)
        return Provisioned(request.kind, request.request_id, request.name, orjson.dumps(definition.to_dict()))
    await queues.ask(DeleteQueue(request.name, rights.username))
    return Provisioned(request.kind, request.request_id, request.name, b"")


def _attributes_of(request: Provision) -> dict[str, object]:
    """Return the attributes in the body. Raises RequestRefused."""
    try:
        found = orjson.loads(request.attributes or b"{}")
    except orjson.JSONDecodeError as error:
        raise RequestRefused(codes.REQUEST_INVALID, f"the attributes are not JSON: {error}") from None
    if not isinstance(found, dict):
        raise RequestRefused(codes.REQUEST_INVALID, "the attributes are not a JSON object")
    return found
