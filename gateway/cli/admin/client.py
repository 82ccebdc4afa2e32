"""The client of the admin API: it maps operations to paths and JSON, and returns views.

The HTTP exchange is in `gateway.cli.admin.connection`. Operations whose views import models of the configuration are in
`gateway.cli.admin.objects`.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Final, Self
from urllib.parse import quote, urlencode

import typer
from pydantic import ValidationError

from sluicegate.gateway.cli.admin.connection import RELEASE_ADVICE, AdminPort
from sluicegate.gateway.cli.terminal.failures import UNREACHABLE, CommandFailed
from sluicegate.gateway.views.adapters import View, adapter
from sluicegate.gateway.views.clients.clients import ClientsView
from sluicegate.gateway.views.clients.connections import ClientDetailsView, ClientSubscriptionsView
from sluicegate.gateway.views.clients.message_vpns import MessageVpnsView, MessageVpnView
from sluicegate.gateway.views.clients.retained import RetainedContentView, RetainedMessagesView
from sluicegate.gateway.views.clients.sessions import MqttSessionsView, MqttSessionView
from sluicegate.gateway.views.clients.subscriptions import SmrpSubscriptionsView
from sluicegate.gateway.views.clients.traces import TracedPacket
from sluicegate.gateway.views.node.backups import BackupView
from sluicegate.gateway.views.node.figures import NodeFigures, QueuesFigures
from sluicegate.gateway.views.node.listeners import ListenersView
from sluicegate.gateway.views.node.runtime import ActorView, EventView, ReloadView
from sluicegate.gateway.views.node.spool import SpoolView
from sluicegate.gateway.views.queues.cursors import CursorView
from sluicegate.gateway.views.queues.explanations import KeyExplanation, PublishExplanation
from sluicegate.gateway.views.queues.messages import MessageSearchView, MessageView, RedriveView, TakenView
from sluicegate.gateway.views.queues.queues import DurableSelectorView, NetworkQueueView, QueueMoveView, QueueView
from sluicegate.messaging.message.vpn import DEFAULT_VPN

URL_DEFAULT: Final = "http://127.0.0.1:8080"

UrlOption = Annotated[str, typer.Option("--url", envvar="SLUICEGATE_URL", help="Admin port of the gateway.")]

VpnOption = Annotated[str, typer.Option("--vpn", envvar="SLUICEGATE_VPN", metavar="NAME", help="Message VPN.")]


class AdminClient:
    """The admin API of one gateway for one message VPN. Operations raise CommandFailed with a message to print."""

    def __init__(self, url: str, vpn: str = DEFAULT_VPN) -> None:
        self.vpn = vpn
        self._port = AdminPort(url, vpn)

    def in_vpn(self, vpn: str) -> Self:
        """Return a client for another message VPN of the same gateway."""
        other = copy.copy(self)
        other.vpn = vpn
        other._port = self._port.in_vpn(vpn)
        return other

    def create_queue(self, definition: Mapping[str, object]) -> QueueView:
        """Create a queue."""
        return read_view(QueueView, self._port.ask("POST", "/queues", definition))

    def update_queue(self, name: str, changes: Mapping[str, object]) -> QueueView:
        """Change attributes or subscriptions."""
        return read_view(QueueView, self._port.ask("PATCH", _queue_path(name), changes))

    def list_queues(self) -> Sequence[QueueView]:
        """Return every queue."""
        return read_view(tuple[QueueView, ...], _member(self._port.ask("GET", "/queues"), "queues"))

    def list_network_queues(self) -> Sequence[NetworkQueueView]:
        """Return the queues of neighbor brokers."""
        return read_view(tuple[NetworkQueueView, ...], _member(self._port.ask("GET", "/network/queues"), "queues"))

    def show_queue(self, name: str) -> QueueView:
        """Return one queue."""
        return read_view(QueueView, self._port.ask("GET", _queue_path(name)))

    def delete_queue(self, name: str) -> None:
        """Delete a queue."""
        self._port.ask("DELETE", _queue_path(name))

    def purge_queue(self, name: str) -> int:
        """Remove the messages that are not delivered; return their number."""
        purged = _member(self._port.ask("POST", _queue_path(name) + "/purge"), "purged_count")
        return purged if isinstance(purged, int) else 0

    def browse_queue(
        self, name: str, *, partition: int | None, after: int, limit: int, selector: str | None
    ) -> Sequence[MessageView]:
        """Return one page of messages."""
        query = _query(after=after, limit=limit, partition=partition, selector=selector)
        answer = self._port.ask("GET", f"{_queue_path(name)}/messages?{query}")
        return read_view(tuple[MessageView, ...], _member(answer, "messages"))

    def search_queue(self, name: str, query: Mapping[str, str | int]) -> MessageSearchView:
        """Return messages that match, and where the next request goes on."""
        return read_view(MessageSearchView, self._port.ask("GET", f"{_queue_path(name)}/search?{_query(**query)}"))

    def republish_messages(self, name: str, ids: Sequence[str], *, remove: bool) -> TakenView:
        """Publish messages again, to where they were published."""
        return self.take_messages(name, "republish", {"ids": list(ids), "remove": remove})

    def follow_queue(
        self, name: str, *, partition: int | None, after: int, selector: str | None
    ) -> Iterator[MessageView]:
        """Yield messages as they arrive, until the gateway ends the answer."""
        query = _query(after=after, follow=1, partition=partition, selector=selector)
        for message in self._port.follow(f"{_queue_path(name)}/messages?{query}"):
            yield read_view(MessageView, message)

    def list_selectors(self) -> Sequence[DurableSelectorView]:
        """Return every durable selector."""
        return read_view(
            tuple[DurableSelectorView, ...], _member(self._port.ask("GET", "/durable-selectors"), "selectors")
        )

    def add_subscription(self, queue: str, topic: str) -> None:
        """Add a subscription to a queue."""
        self._port.ask("PUT", _subscription_path(queue, topic))

    def remove_subscription(self, queue: str, topic: str) -> None:
        """Remove a subscription from a queue."""
        self._port.ask("DELETE", _subscription_path(queue, topic))

    def put_selector(self, queue: str, subscriber: str, selectors: Sequence[str]) -> None:
        """Set the durable selectors of a subscriber."""
        self._port.ask("PUT", _selector_path(queue, subscriber), {"selectors": list(selectors)})

    def delete_selector(self, queue: str, subscriber: str) -> None:
        """Delete the durable selectors of a subscriber."""
        self._port.ask("DELETE", _selector_path(queue, subscriber))

    def reload(self) -> ReloadView:
        """Make the node reload its configuration."""
        return read_view(ReloadView, self._port.ask("POST", "/configuration/reload"))

    def create_template(self, template: Mapping[str, object]) -> dict[str, object]:
        """Create a queue template."""
        return _object(self._port.ask("POST", "/queue-templates", template))

    def list_templates(self) -> Sequence[dict[str, object]]:
        """Return every queue template."""
        templates = _member(self._port.ask("GET", "/queue-templates"), "templates")
        return [_object(each) for each in templates] if isinstance(templates, list) else []

    def show_template(self, name: str) -> dict[str, object]:
        """Return one queue template."""
        return _object(self._port.ask("GET", _template_path(name)))

    def update_template(self, name: str, changes: Mapping[str, object]) -> dict[str, object]:
        """Change some fields of a queue template."""
        return _object(self._port.ask("PATCH", _template_path(name), changes))

    def delete_template(self, name: str) -> None:
        """Delete a queue template."""
        self._port.ask("DELETE", _template_path(name))

    def take_messages(self, name: str, action: str, selection: Mapping[str, object]) -> TakenView:
        """Delete, move or copy messages; `action` is the last part of the path."""
        return read_view(TakenView, self._port.ask("POST", f"{_queue_path(name)}/messages/{action}", selection))

    def start_redrive(self, name: str, selection: Mapping[str, object]) -> RedriveView:
        """Start redelivering dead messages to their original queues, or to another one."""
        return read_view(RedriveView, self._port.ask("POST", _queue_path(name) + "/redrive", selection))

    def show_redrive(self, name: str) -> RedriveView:
        """Return the progress of the latest re-drive."""
        return read_view(RedriveView, self._port.ask("GET", _queue_path(name) + "/redrive"))

    def cancel_redrive(self, name: str) -> RedriveView:
        """Stop a re-drive."""
        return read_view(RedriveView, self._port.ask("DELETE", _queue_path(name) + "/redrive"))

    def replay_queue(self, name: str, body: Mapping[str, object]) -> int:
        """Replay settled messages that the queue keeps; return their number."""
        replayed = _member(self._port.ask("POST", _queue_path(name) + "/replay", body), "replayed_count")
        return replayed if isinstance(replayed, int) else 0

    def move_queue(self, name: str, to: str, *, drop_kept: bool) -> None:
        """Begin to move a queue to another broker."""
        self._port.ask("PUT", _queue_path(name) + "/move", {"to": to, "drop_kept": drop_kept})

    def cancel_move(self, name: str) -> None:
        """End the move of a queue."""
        self._port.ask("DELETE", _queue_path(name) + "/move")

    def end_move(self, name: str, without: str) -> None:
        """End a move to or from a broker that does not come back."""
        self._port.ask("DELETE", f"{_queue_path(name)}/move?{urlencode({'without': without})}")

    def list_moves(self) -> Sequence[QueueMoveView]:
        """Return the queues that are being moved to other brokers."""
        return read_view(tuple[QueueMoveView, ...], _member(self._port.ask("GET", "/network/moves"), "moves"))

    def list_cursors(self, name: str) -> Sequence[CursorView]:
        """Return a queue's durable cursors."""
        return read_view(
            tuple[CursorView, ...], _member(self._port.ask("GET", _queue_path(name) + "/cursors"), "cursors")
        )

    def delete_cursor(self, name: str, cursor: str) -> None:
        """Delete a durable cursor."""
        self._port.ask("DELETE", f"{_queue_path(name)}/cursors/{quote(cursor, safe='')}")

    def start_backup(self, name: str | None) -> BackupView:
        """Start a backup."""
        return read_view(BackupView, self._port.ask("POST", "/backup", {} if name is None else {"name": name}))

    def show_backup(self) -> BackupView:
        """Return the progress of the latest backup."""
        return read_view(BackupView, self._port.ask("GET", "/backup"))

    def cancel_backup(self) -> BackupView:
        """Cancel the running backup."""
        return read_view(BackupView, self._port.ask("DELETE", "/backup"))

    def actors(self) -> Sequence[ActorView]:
        """Return the roots of the actor tree."""
        return read_view(tuple[ActorView, ...], _member(self._port.ask("GET", "/actors"), "actors"))

    def events(self, *, after: int, limit: int) -> Sequence[EventView]:
        """Return events with numbers above `after`, oldest first."""
        query = urlencode({"after": after, "limit": limit})
        return read_view(tuple[EventView, ...], _member(self._port.ask("GET", f"/events?{query}"), "events"))

    def explain_publish(
        self,
        *,
        topic: str | None,
        queue: str | None,
        key: str | None,
        client_id: str | None,
        client_username: str | None,
        properties: str | None,
        size: int,
        qos: int,
        priority: int,
        deliver_to_one: bool,
    ) -> PublishExplanation:
        """Return how the gateway would route a message. `properties` is a JSON object."""
        texts = {
            "topic": topic,
            "queue": queue,
            "key": key,
            "client_id": client_id,
            "client_username": client_username,
            "properties": properties,
        }
        query = {name: text for name, text in texts.items() if text is not None}
        numbers = {"size": size, "qos": qos, "priority": priority, "deliver_to_one": int(deliver_to_one)}
        return read_view(PublishExplanation, self._port.ask("GET", f"/explain/publish?{urlencode(query | numbers)}"))

    def explain_key(self, *, queue: str, key: str) -> KeyExplanation:
        """Return the partition of a key, its consumer, and why its messages wait."""
        return read_view(
            KeyExplanation, self._port.ask("GET", f"/explain/key?{urlencode({'queue': queue, 'key': key})}")
        )

    def list_message_vpns(self) -> MessageVpnsView:
        """Return every message VPN."""
        return read_view(MessageVpnsView, self._port.ask("GET", "/message-vpns"))

    def show_message_vpn(self, name: str) -> MessageVpnView:
        """Return one message VPN."""
        return read_view(MessageVpnView, self._port.ask("GET", _vpn_path(name)))

    def create_message_vpn(self, settings: Mapping[str, object]) -> MessageVpnView:
        """Create a message VPN."""
        return read_view(MessageVpnView, self._port.ask("POST", "/message-vpns", settings))

    def update_message_vpn(self, name: str, changes: Mapping[str, object]) -> MessageVpnView:
        """Change settings of a message VPN."""
        return read_view(MessageVpnView, self._port.ask("PATCH", _vpn_path(name), changes))

    def delete_message_vpn(self, name: str, *, force: bool) -> None:
        """Delete a message VPN; with `force` whatever it has."""
        self._port.ask("DELETE", f"{_vpn_path(name)}?force=true" if force else _vpn_path(name))

    def list_clients(self, query: Mapping[str, str | int]) -> ClientsView:
        """Return a page of the connected clients; `query` has the parameters of the operation."""
        return read_view(ClientsView, self._port.ask("GET", f"/clients?{urlencode(query)}"))

    def show_client(self, name: str) -> ClientDetailsView:
        """Return one client with its connections."""
        return read_view(ClientDetailsView, self._port.ask("GET", _client_path(name)))

    def disconnect_client(self, name: str) -> None:
        """Disconnect a client."""
        self._port.ask("DELETE", _client_path(name))

    def client_subscriptions(self, name: str, query: Mapping[str, str | int]) -> ClientSubscriptionsView:
        """Return a page of the subscriptions of a client; `query` has the parameters of the operation."""
        path = f"{_client_path(name)}/subscriptions?{urlencode(query)}"
        return read_view(ClientSubscriptionsView, self._port.ask("GET", path))

    def trace_client(self, name: str, payload_bytes: int) -> Iterator[TracedPacket]:
        """Yield the packets of a client as they pass, until the gateway ends the answer."""
        for packet in self._port.events(f"{_client_path(name)}/trace?{_query(payload=payload_bytes)}"):
            yield read_view(TracedPacket, packet)

    def trace_username(self, username: str, payload_bytes: int) -> Iterator[TracedPacket]:
        """Yield the packets of the clients of a username, empty for none, as they pass."""
        query: dict[str, str | int] = {"payload": payload_bytes}
        if username:
            query["client_username"] = username
        for packet in self._port.events(f"/trace?{urlencode(query)}"):
            yield read_view(TracedPacket, packet)

    def list_sessions(self, query: Mapping[str, str | int]) -> MqttSessionsView:
        """Return a page of the MQTT sessions; `query` has the parameters of the operation."""
        return read_view(MqttSessionsView, self._port.ask("GET", f"/mqtt-sessions?{urlencode(query)}"))

    def show_session(self, client_id: str) -> MqttSessionView:
        """Return one MQTT session."""
        return read_view(MqttSessionView, self._port.ask("GET", _session_path(client_id)))

    def delete_session(self, client_id: str) -> None:
        """End an MQTT session."""
        self._port.ask("DELETE", _session_path(client_id))

    def list_retained(self, query: Mapping[str, str | int]) -> RetainedMessagesView:
        """Return a page of the retained messages; `query` has the parameters of the operation."""
        return read_view(RetainedMessagesView, self._port.ask("GET", f"/retained-messages?{urlencode(query)}"))

    def show_retained(self, topic: str) -> RetainedContentView:
        """Return one retained message with its payload."""
        return read_view(RetainedContentView, self._port.ask("GET", _retained_path(topic)))

    def delete_retained(self, topic: str) -> None:
        """Delete a retained message."""
        self._port.ask("DELETE", _retained_path(topic))

    def list_listeners(self) -> ListenersView:
        """Return the open ports for clients."""
        return read_view(ListenersView, self._port.ask("GET", "/listeners"))

    def node_figures(self) -> NodeFigures:
        """Return the node's totals."""
        return read_view(NodeFigures, self._port.ask("GET", "/figures"))

    def queues_figures(self, query: Mapping[str, str | int]) -> QueuesFigures:
        """Return a page of queues with their figures; `query` has the parameters of the operation."""
        return read_view(QueuesFigures, self._port.ask("GET", f"/figures/queues?{urlencode(query)}"))

    def show_spool(self) -> SpoolView:
        """Return the spool."""
        return read_view(SpoolView, self._port.ask("GET", "/spool"))

    def smrp_subscriptions(self, query: Mapping[str, str | int]) -> SmrpSubscriptionsView:
        """Return a page of subscriptions; `query` has the parameters of the operation."""
        return read_view(SmrpSubscriptionsView, self._port.ask("GET", f"/smrp/subscriptions?{urlencode(query)}"))


def _vpn_path(name: str) -> str:
    return "/message-vpns/" + quote(name, safe="")


def _client_path(name: str) -> str:
    return "/clients/" + quote(name, safe="")


def _session_path(client_id: str) -> str:
    return "/mqtt-sessions/" + quote(client_id, safe="")


def _retained_path(topic: str) -> str:
    return "/retained-messages/" + quote(topic, safe="")


def _queue_path(name: str) -> str:
    return "/queues/" + quote(name, safe="")


def _query(**parameters: int | str | None) -> str:
    """Return the query that sets these parameters; None leaves one out."""
    return urlencode({name: value for name, value in parameters.items() if value is not None})


def _subscription_path(queue: str, topic: str) -> str:
    return f"{_queue_path(queue)}/subscriptions/{quote(topic, safe='')}"


def _selector_path(queue: str, subscriber: str) -> str:
    return f"{_queue_path(queue)}/selectors/{quote(subscriber, safe='')}"


def _template_path(name: str) -> str:
    return "/queue-templates/" + quote(name, safe="")


def _object(answer: object) -> dict[str, object]:
    if not isinstance(answer, dict):
        raise CommandFailed("the answer is not a JSON object", exit_code=UNREACHABLE, advice=RELEASE_ADVICE)
    return answer


def _member(answer: object, key: str) -> object:
    if not isinstance(answer, dict) or key not in answer:
        raise CommandFailed(f"the answer has no {key!r}", exit_code=UNREACHABLE, advice=RELEASE_ADVICE)
    return answer[key]


def read_view(kind: type[View], answer: object) -> View:
    """Return the view that an answer contains. Raises CommandFailed."""
    try:
        return adapter(kind).validate_python(answer)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the whole answer"
        text = f"cannot read the answer ({where}: {first['msg']}): the gateway may run another release"
        raise CommandFailed(text, advice=RELEASE_ADVICE) from None
