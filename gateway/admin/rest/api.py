"""What each operation of the admin port does: read the request, ask the node, write the answer."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import orjson
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from sluicegate.actors.messages.operations import COPY, DELETE, MOVE
from sluicegate.gateway.admin.requests import (
    html_answer,
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
from sluicegate.gateway.admin.rest.objects_api import AccountApi, FiguresApi, ProfileApi, RestApi, UserApi
from sluicegate.gateway.admin.rest.openapi import docs_page, document_json, index_page
from sluicegate.gateway.admin.rest.operations import (
    BROWSE_PARAMETERS,
    CLIENT_NAME_PARAMETER,
    CLIENTS_NUMBERS,
    EVENTS_PARAMETERS,
    FOLLOW,
    KEY_WANTED_PARAMETER,
    MESSAGE_PARAMETERS,
    QUEUE_PARAMETER,
    SELECTOR_PARAMETER,
    SMRP_NUMBERS,
    SMRP_TEXTS,
    SPECIMEN_TEXTS,
    TARGET_PARAMETER,
    TOPIC_PARAMETER,
)
from sluicegate.gateway.observability.metrics import CONTENT_TYPE, Exposition
from sluicegate.gateway.observability.reader_batches import ReaderBatch
from sluicegate.gateway.operations.interface import NodePort, template_of
from sluicegate.gateway.views.adapters import adapter
from sluicegate.gateway.views.clients import ClientQuestion
from sluicegate.gateway.views.explanations import Specimen, properties_from_json
from sluicegate.gateway.views.queues import ActorView, DurableSelectorView, EventView, MessageView, QueueView
from sluicegate.gateway.views.selections import (
    FIELDS_OF_DELETE,
    FIELDS_OF_MOVE,
    FIELDS_OF_REDRIVE,
    SEQUENCE_MAX,
    replay_start,
    selection_from_dict,
)
from sluicegate.gateway.views.spool import CursorView
from sluicegate.gateway.views.subscriptions import SmrpQuestion
from sluicegate.messaging.queues.attributes import seen
from sluicegate.messaging.queues.definition import QueueInvalid
from sluicegate.messaging.queues.template import template_from_dict

LINES_TYPE: Final = "application/x-ndjson"


@dataclass(frozen=True, slots=True)
class _Queues:
    queues: Sequence[QueueView]


@dataclass(frozen=True, slots=True)
class _Messages:
    messages: Sequence[MessageView]


@dataclass(frozen=True, slots=True)
class _Actors:
    actors: Sequence[ActorView]


@dataclass(frozen=True, slots=True)
class _Events:
    events: Sequence[EventView]


@dataclass(frozen=True, slots=True)
class _Cursors:
    cursors: Sequence[CursorView]


@dataclass(frozen=True, slots=True)
class _Selectors:
    selectors: Sequence[DurableSelectorView]


class AdminApi(AccountApi, FiguresApi, ProfileApi, RestApi, UserApi):
    """The operations, by the ids of `gateway.admin.rest.operations`."""

    def __init__(self, *, node: NodePort, exposition: Exposition) -> None:
        super().__init__(node)
        self._exposition = exposition

    def in_vpn(self, name: str) -> "AdminApi":
        """Return the operations over another message VPN. Raises VpnNotFound."""
        return AdminApi(node=self._node.in_vpn(name), exposition=self._exposition)

    async def index(self, request: Request) -> Response:
        """A page of links."""
        return html_answer(index_page())

    async def docs(self, request: Request) -> Response:
        """The documentation page."""
        return html_answer(docs_page())

    async def openapi(self, request: Request) -> Response:
        """The OpenAPI document."""
        return json_answer(await asyncio.to_thread(document_json))

    async def live(self, request: Request) -> Response:
        """200 while the process works, 503 when it should be restarted."""
        health = await self._node.health()
        return view_answer(health, status=200 if health.live else 503)

    async def ready(self, request: Request) -> Response:
        """200 while the node takes traffic, 503 with the reasons otherwise."""
        health = await self._node.health()
        return view_answer(health, status=200 if health.live and health.ready else 503)

    async def metrics(self, request: Request) -> Response:
        """The text a Prometheus server scrapes."""
        samples = await self._node.metrics_snapshot()
        return Response(self._exposition.render(samples), headers={"Content-Type": CONTENT_TYPE})

    async def actors(self, request: Request) -> Response:
        """The tree of actors."""
        return view_answer(_Actors(await self._node.actor_tree()))

    async def events(self, request: Request) -> Response:
        """What happened lately."""
        after, limit = (whole_number(request, parameter) for parameter in EVENTS_PARAMETERS)
        return view_answer(_Events(await self._node.events(after=after or 0, limit=limit or 1)))

    async def explain_publish(self, request: Request) -> Response:
        """What would become of a message."""
        topic, queue = text(request, TOPIC_PARAMETER), text(request, TARGET_PARAMETER)
        if (topic is None) == (queue is None):
            raise QueueInvalid("topic", "a topic or a queue is wanted, and not both", "topic, or queue")
        key, client_id, client_username, properties = (text(request, each) for each in SPECIMEN_TEXTS)
        size, qos, priority, deliver_to_one = (whole_number(request, each) or 0 for each in MESSAGE_PARAMETERS)
        message = Specimen(
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
        explanation = await self._node.explain_publish(message, queue=queue)
        return view_answer(explanation)

    async def explain_key(self, request: Request) -> Response:
        """Where a partition key stands."""
        queue, key = (text(request, each) or "" for each in (QUEUE_PARAMETER, KEY_WANTED_PARAMETER))
        return view_answer(await self._node.explain_key(queue, key))

    async def smrp_subscriptions(self, request: Request) -> Response:
        """Who subscribes to what."""
        vpn_name, destination_name, topic, topic_str = (text(request, each) or "" for each in SMRP_TEXTS)
        after, limit = (whole_number(request, each) or 0 for each in SMRP_NUMBERS)
        question = SmrpQuestion(
            vpn_name=vpn_name,
            destination_name=destination_name,
            topic=topic,
            topic_str=topic_str,
            after=after,
            limit=limit,
        )
        return view_answer(await self._node.smrp_subscriptions(question))

    async def list_message_vpns(self, request: Request) -> Response:
        """Every message VPN."""
        return view_answer(await self._node.list_message_vpns())

    async def list_clients(self, request: Request) -> Response:
        """The clients that are connected."""
        after, limit = (whole_number(request, each) or 0 for each in CLIENTS_NUMBERS)
        name = text(request, CLIENT_NAME_PARAMETER) or ""
        question = ClientQuestion(client_name=name, after=after, limit=limit)
        return view_answer(await self._node.list_clients(question))

    async def disconnect_client(self, request: Request) -> Response:
        """Send a client away."""
        await self._node.disconnect_client(path_name(request))
        return Response(status_code=204)

    async def list_queues(self, request: Request) -> Response:
        """Every queue."""
        return view_answer(_Queues(await self._node.list_queues()))

    async def create_queue(self, request: Request) -> Response:
        """Create a queue from a definition in the body."""
        asked = await json_object(request)
        durable = asked.pop("durable", None)
        if durable is not None and not isinstance(durable, bool):
            raise QueueInvalid("durable", f"{seen(durable)} is not allowed", "true or false")
        view = await self._node.create_queue(asked, durable=durable)
        return made_answer(request, view.name, view_json(view))

    async def show_queue(self, request: Request) -> Response:
        """One queue with its partitions and flows."""
        return view_answer(await self._node.show_queue(path_name(request)))

    async def update_queue(self, request: Request) -> Response:
        """Change what the body names."""
        changes = await json_object(request)
        return view_answer(await self._node.update_queue(path_name(request), changes))

    async def delete_queue(self, request: Request) -> Response:
        """Delete a queue."""
        await self._node.delete_queue(path_name(request))
        return Response(status_code=204)

    async def replay_queue(self, request: Request) -> Response:
        """Offer kept messages again."""
        body = await json_object(request)
        for key in body:
            if key not in ("from", "to", "partition"):
                raise QueueInvalid(key, "there is no such member", "from, to, partition")
        start = replay_start(str(body.get("from", "")))
        end, partition = sequence(body, "to"), sequence(body, "partition")
        count = await self._node.replay_queue(
            path_name(request), start, end=SEQUENCE_MAX if end is None else end, partition=partition
        )
        return json_answer(orjson.dumps({"replayed_count": count}))

    async def list_cursors(self, request: Request) -> Response:
        """A queue's durable cursors."""
        return view_answer(_Cursors(await self._node.list_cursors(path_name(request))))

    async def delete_cursor(self, request: Request) -> Response:
        """Forget a durable cursor."""
        await self._node.delete_cursor(path_name(request), path_name(request, "cursor"))
        return Response(status_code=204)

    async def add_batch(self, request: Request) -> Response:
        """Count what a reader in bulk says of a batch."""
        batch = ReaderBatch.of_json(await json_object(request))
        await self._node.add_batch(path_name(request), path_name(request, "cursor"), batch)
        return Response(status_code=204)

    async def show_spool(self, request: Request) -> Response:
        """The spool."""
        return view_answer(await self._node.show_spool())

    async def start_backup(self, request: Request) -> Response:
        """Begin a backup."""
        body = await json_object(request)
        name = body.pop("name", "")
        if body or not isinstance(name, str):
            raise QueueInvalid("name" if not body else next(iter(body)), "that is not allowed", "name, a text")
        return view_answer(await self._node.start_backup(name), status=202)

    async def show_backup(self, request: Request) -> Response:
        """How far the latest backup has come."""
        return view_answer(await self._node.show_backup())

    async def cancel_backup(self, request: Request) -> Response:
        """End the backup that is running."""
        return view_answer(await self._node.cancel_backup())

    async def purge_queue(self, request: Request) -> Response:
        """Remove what waits in a queue."""
        return json_answer(orjson.dumps({"purged_count": await self._node.purge_queue(path_name(request))}))

    async def browse_queue(self, request: Request) -> Response:
        """A page of messages."""
        partition, after, limit = (whole_number(request, parameter) for parameter in BROWSE_PARAMETERS)
        selector = text(request, SELECTOR_PARAMETER) or ""
        if whole_number(request, FOLLOW):
            followed = await self._node.follow_queue(
                path_name(request), partition=partition, after=after or 0, selector=selector
            )
            if request.method == "HEAD":  # nothing of it would be sent, and without end
                answer = Response(media_type=LINES_TYPE)
                del answer.headers["content-length"]
                return answer
            lines = (adapter(MessageView).dump_json(message) + b"\n" async for message in followed)
            return StreamingResponse(lines, media_type=LINES_TYPE)
        messages = await self._node.browse_queue(
            path_name(request), partition=partition, after=after or 0, limit=limit or 1, selector=selector
        )
        return view_answer(_Messages(messages))

    async def list_selectors(self, request: Request) -> Response:
        """Every durable selector."""
        return view_answer(_Selectors(await self._node.list_selectors()))

    async def put_selector(self, request: Request) -> Response:
        """Set what a subscriber selects."""
        selectors = (await json_object(request)).get("selectors")
        if not isinstance(selectors, list) or not all(isinstance(each, str) for each in selectors):
            raise QueueInvalid("selectors", f"{seen(selectors)} is not allowed", "a list of texts")
        await self._node.put_selector(path_name(request), path_name(request, "subscriber"), selectors)
        return Response(status_code=204)

    async def delete_selector(self, request: Request) -> Response:
        """Forget what a subscriber selects."""
        await self._node.delete_selector(path_name(request), path_name(request, "subscriber"))
        return Response(status_code=204)

    async def reload(self, request: Request) -> Response:
        """Read the configuration again."""
        return view_answer(await self._node.reload())

    async def list_templates(self, request: Request) -> Response:
        """Every queue template."""
        templates = [template.to_dict() for template in await self._node.list_templates()]
        return json_answer(orjson.dumps({"templates": templates}))

    async def create_template(self, request: Request) -> Response:
        """Create a queue template from the body."""
        template = template_from_dict(await json_object(request))
        await self._node.put_template(template, must_be_new=True)
        return made_answer(request, template.name, orjson.dumps(template.to_dict()))

    async def show_template(self, request: Request) -> Response:
        """One queue template."""
        return json_answer(orjson.dumps((await template_of(self._node, path_name(request))).to_dict()))

    async def update_template(self, request: Request) -> Response:
        """Change what the body names."""
        template = await self._node.update_template(path_name(request), await json_object(request))
        return json_answer(orjson.dumps(template.to_dict()))

    async def delete_template(self, request: Request) -> Response:
        """Delete a queue template."""
        await self._node.delete_template(path_name(request))
        return Response(status_code=204)

    async def delete_messages(self, request: Request) -> Response:
        """Delete messages."""
        return await self._take(request, DELETE, FIELDS_OF_DELETE)

    async def move_messages(self, request: Request) -> Response:
        """Move messages to another queue."""
        return await self._take(request, MOVE, FIELDS_OF_MOVE)

    async def copy_messages(self, request: Request) -> Response:
        """Copy messages to another queue."""
        return await self._take(request, COPY, FIELDS_OF_MOVE)

    async def start_redrive(self, request: Request) -> Response:
        """Begin a re-drive."""
        selection = selection_from_dict(await json_object(request), FIELDS_OF_REDRIVE)
        view = await self._node.start_redrive(path_name(request), selection)
        return view_answer(view, status=202)

    async def show_redrive(self, request: Request) -> Response:
        """How far a re-drive has come."""
        return view_answer(await self._node.show_redrive(path_name(request)))

    async def cancel_redrive(self, request: Request) -> Response:
        """End a re-drive."""
        return view_answer(await self._node.cancel_redrive(path_name(request)))

    async def _take(self, request: Request, deed: str, fields: tuple[str, ...]) -> Response:
        selection = selection_from_dict(await json_object(request), fields)
        if "to" in fields and not selection.to:
            raise QueueInvalid("to", "it is missing", "the name of a durable queue")
        return view_answer(await self._node.take_messages(path_name(request), deed, selection))
