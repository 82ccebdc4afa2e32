"""The messages of a queue in SEMP's monitor API, read page by page, because a queue may hold very many.

A page starts after its cursor. `where` filters within the page, so a page can be short or empty although another one
follows. Payloads are not shown; the admin API browses them.
"""

import asyncio
from typing import Final

from starlette.requests import Request

from sluicegate.gateway.admin.requests import path_name
from sluicegate.gateway.admin.semp.envelope import (
    Asked,
    Document,
    SempOperation,
    answer_of_many,
    answer_of_one,
    is_wanted,
    shown,
)
from sluicegate.gateway.admin.semp.errors import SempError, invalid_parameter, not_found
from sluicegate.gateway.admin.semp.objects.queues import MESSAGE
from sluicegate.gateway.admin.semp.query import cursor_after, read_query
from sluicegate.gateway.admin.semp.resources import QUEUES
from sluicegate.gateway.operations.interface import NodeInterface
from sluicegate.gateway.views.queues.messages import MessageView
from sluicegate.messaging.queues.definition import QueueInvalid
from sluicegate.messaging.queues.message_filter import MessageId, parse_message_id

ASKED_TOGETHER: Final = 16  # partitions: of a thousand, most may be empty
PARENTS: Final = ("msgVpnName", "queueName")
PATH: Final = f"{QUEUES.object_path}/msgs"
OBJECT_PATH: Final = f"{PATH}/{{{MESSAGE.key}}}"


async def _many(node: NodeInterface, request: Request, asked: Asked) -> Document:
    """Return the response with a page of messages."""
    parents = {name: path_name(request, name) for name in PARENTS}
    query = read_query(request.url.query, [*parents, *MESSAGE.names()], of_collection=True)
    vpn, queue = node.in_vpn(parents["msgVpnName"]), parents["queueName"]
    first, after = (0, 0) if query.after is None else _place(query.after)
    found: list[MessageView] = []
    partitions_count = len((await vpn.show_queue(queue)).partitions)
    for begin in range(first, partitions_count, ASKED_TOGETHER):
        together = [
            vpn.browse_queue(
                queue, partition=number, after=after if number == first else 0, limit=query.count + 1 - len(found)
            )
            for number in range(begin, min(begin + ASKED_TOGETHER, partitions_count))
        ]
        found += [each for messages in await asyncio.gather(*together) for each in messages]
        if len(found) > query.count:
            break
    page = [
        shown(
            MESSAGE,
            each,
            uri=asked.below(each.id),
            parents=parents,
            selection=query.selection,
        )
        for each in found[: query.count]
        if is_wanted(MESSAGE, each, parents, query)
    ]
    cursor = cursor_after(found[query.count - 1].id) if len(found) > query.count else None
    return answer_of_many(asked, page, count=None, cursor=cursor)


async def _one(node: NodeInterface, request: Request, asked: Asked) -> Document:
    """Return the response with one message."""
    parents = {name: path_name(request, name) for name in PARENTS}
    place = message_id(path_name(request, MESSAGE.key))
    query = read_query(request.url.query, [*parents, *MESSAGE.names()], of_collection=False)
    vpn, queue = node.in_vpn(parents["msgVpnName"]), parents["queueName"]
    try:
        found = await vpn.browse_queue(queue, partition=place.partition, after=place.sequence - 1, limit=1)
    except QueueInvalid:  # there is no such partition
        found = ()
    for each in found:
        if each.id == place.text():
            one = shown(MESSAGE, each, uri=asked.path, parents=parents, selection=query.selection)
            return answer_of_one(asked, one)
    raise _no_message(place.text())


def message_id(text: str) -> MessageId:
    """Return the message ID in a path. Raises SempError if it has another form."""
    try:
        return parse_message_id(text)
    except QueueInvalid:
        raise _no_message(text) from None


def _no_message(text: str) -> SempError:
    return not_found(f"msg {text!r}")


def _place(cursor: str) -> MessageId:
    """Return the ID of the message that a page starts after. Raises SempError."""
    try:
        return parse_message_id(cursor)
    except QueueInvalid:
        raise invalid_parameter("cursor: it is not a cursor of this collection") from None


MESSAGES: Final = (
    SempOperation(method="GET", path=PATH, summary="Every msg", perform=_many, kind=MESSAGE, of_many=True),
    SempOperation(method="GET", path=OBJECT_PATH, summary="One msg", perform=_one, kind=MESSAGE),
)
