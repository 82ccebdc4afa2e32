"""The admin API as the commands use it: paths and JSON in here, views outside. How it is reached is `admin_port`."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Final, Self
from urllib.parse import quote, urlencode

import typer
from pydantic import ValidationError

from sluicegate.gateway.cli.admin.connection import RELEASE_ADVICE, AdminPort
from sluicegate.gateway.cli.terminal.failures import UNREACHABLE, CommandFailed
from sluicegate.gateway.views.adapters import View, adapter
from sluicegate.gateway.views.clients import ClientsView, MessageVpnsView
from sluicegate.gateway.views.explanations import KeyExplanation, PublishExplanation
from sluicegate.gateway.views.figures import NodeFigures, QueuesFigures
from sluicegate.gateway.views.queues import (
    ActorView,
    DurableSelectorView,
    EventView,
    MessageView,
    QueueView,
    RedriveView,
    ReloadView,
    TakenView,
)
from sluicegate.gateway.views.spool import BackupView, CursorView, SpoolView
from sluicegate.gateway.views.subscriptions import SmrpSubscriptionsView
from sluicegate.messaging.message.vpn import DEFAULT_VPN

URL_DEFAULT: Final = "http://127.0.0.1:8080"

UrlOption = Annotated[str, typer.Option("--url", envvar="SLUICEGATE_URL", help="Admin port of the gateway.")]

VpnOption = Annotated[str, typer.Option("--vpn", envvar="SLUICEGATE_VPN", metavar="NAME", help="Message VPN.")]


class AdminClient:
    """One gateway's admin port, for one message VPN. Every verb raises CommandFailed with a message for people."""

    def __init__(self, url: str, vpn: str = DEFAULT_VPN) -> None:
        self._port = AdminPort(url, vpn)

    def in_vpn(self, vpn: str) -> Self:
        """Return the same for another message VPN."""
        other = copy.copy(self)
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

    def show_queue(self, name: str) -> QueueView:
        """Return one queue."""
        return read_view(QueueView, self._port.ask("GET", _queue_path(name)))

    def delete_queue(self, name: str) -> None:
        """Delete a queue."""
        self._port.ask("DELETE", _queue_path(name))

    def purge_queue(self, name: str) -> int:
        """Remove what waits; return how many messages that were."""
        purged = _member(self._port.ask("POST", _queue_path(name) + "/purge"), "purged_count")
        return purged if isinstance(purged, int) else 0

    def browse_queue(
        self, name: str, *, partition: int | None, after: int, limit: int, selector: str | None
    ) -> Sequence[MessageView]:
        """Return one page of messages."""
        query = _query(after=after, limit=limit, partition=partition, selector=selector)
        answer = self._port.ask("GET", f"{_queue_path(name)}/messages?{query}")
        return read_view(tuple[MessageView, ...], _member(answer, "messages"))

    def follow_queue(
        self, name: str, *, partition: int | None, after: int, selector: str | None
    ) -> Iterator[MessageView]:
        """Yield messages as they come, until the gateway ends it."""
        query = _query(after=after, follow=1, partition=partition, selector=selector)
        for message in self._port.follow(f"{_queue_path(name)}/messages?{query}"):
            yield read_view(MessageView, message)

    def list_selectors(self) -> Sequence[DurableSelectorView]:
        """Return every durable selector."""
        return read_view(
            tuple[DurableSelectorView, ...], _member(self._port.ask("GET", "/durable-selectors"), "selectors")
        )

    def put_selector(self, queue: str, subscriber: str, selectors: Sequence[str]) -> None:
        """Set what a subscriber selects."""
        self._port.ask("PUT", _selector_path(queue, subscriber), {"selectors": list(selectors)})

    def delete_selector(self, queue: str, subscriber: str) -> None:
        """Forget what a subscriber selects."""
        self._port.ask("DELETE", _selector_path(queue, subscriber))

    def reload(self) -> ReloadView:
        """Have the node read its configuration again."""
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
        """Delete, move or copy messages."""
        return read_view(TakenView, self._port.ask("POST", f"{_queue_path(name)}/messages/{action}", selection))

    def start_redrive(self, name: str, selection: Mapping[str, object]) -> RedriveView:
        """Begin to drive dead messages back."""
        return read_view(RedriveView, self._port.ask("POST", _queue_path(name) + "/redrive", selection))

    def show_redrive(self, name: str) -> RedriveView:
        """Return how far the latest re-drive has come."""
        return read_view(RedriveView, self._port.ask("GET", _queue_path(name) + "/redrive"))

    def cancel_redrive(self, name: str) -> RedriveView:
        """End a re-drive where it is."""
        return read_view(RedriveView, self._port.ask("DELETE", _queue_path(name) + "/redrive"))

    def replay_queue(self, name: str, body: Mapping[str, object]) -> int:
        """Offer kept messages again; return how many."""
        replayed = _member(self._port.ask("POST", _queue_path(name) + "/replay", body), "replayed_count")
        return replayed if isinstance(replayed, int) else 0

    def list_cursors(self, name: str) -> Sequence[CursorView]:
        """Return a queue's durable cursors."""
        return read_view(
            tuple[CursorView, ...], _member(self._port.ask("GET", _queue_path(name) + "/cursors"), "cursors")
        )

    def delete_cursor(self, name: str, cursor: str) -> None:
        """Forget a durable cursor."""
        self._port.ask("DELETE", f"{_queue_path(name)}/cursors/{quote(cursor, safe='')}")

    def start_backup(self, name: str | None) -> BackupView:
        """Begin a backup."""
        return read_view(BackupView, self._port.ask("POST", "/backup", {} if name is None else {"name": name}))

    def show_backup(self) -> BackupView:
        """Return how far the latest backup has come."""
        return read_view(BackupView, self._port.ask("GET", "/backup"))

    def cancel_backup(self) -> BackupView:
        """End the backup that is running."""
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
        """Return what would become of a message. `properties` are a JSON object."""
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
        """Return where a key of a queue stands."""
        return read_view(
            KeyExplanation, self._port.ask("GET", f"/explain/key?{urlencode({'queue': queue, 'key': key})}")
        )

    def list_message_vpns(self) -> MessageVpnsView:
        """Return every message VPN."""
        return read_view(MessageVpnsView, self._port.ask("GET", "/message-vpns"))

    def list_clients(self, question: Mapping[str, str | int]) -> ClientsView:
        """Return a page of the connected clients; `question` has the parameters of the operation."""
        return read_view(ClientsView, self._port.ask("GET", f"/clients?{urlencode(question)}"))

    def node_figures(self) -> NodeFigures:
        """Return the node's totals."""
        return read_view(NodeFigures, self._port.ask("GET", "/figures"))

    def queues_figures(self, question: Mapping[str, str | int]) -> QueuesFigures:
        """Return a page of queues, a line of numbers each; `question` has the parameters of the operation."""
        return read_view(QueuesFigures, self._port.ask("GET", f"/figures/queues?{urlencode(question)}"))

    def show_spool(self) -> SpoolView:
        """Return the spool."""
        return read_view(SpoolView, self._port.ask("GET", "/spool"))

    def smrp_subscriptions(self, question: Mapping[str, str | int]) -> SmrpSubscriptionsView:
        """Return a page of subscriptions; `question` has the parameters of the operation."""
        return read_view(SmrpSubscriptionsView, self._port.ask("GET", f"/smrp/subscriptions?{urlencode(question)}"))


def _queue_path(name: str) -> str:
    return "/queues/" + quote(name, safe="")


def _query(**parameters: int | str | None) -> str:
    """Return the query that sets these parameters; None leaves one out."""
    return urlencode({name: value for name, value in parameters.items() if value is not None})


def _selector_path(queue: str, subscriber: str) -> str:
    return f"{_queue_path(queue)}/selectors/{quote(subscriber, safe='')}"


def _template_path(name: str) -> str:
    return "/queue-templates/" + quote(name, safe="")


def _object(answer: object) -> dict[str, object]:
    if not isinstance(answer, dict):
        raise CommandFailed("the answer is no object", exit_code=UNREACHABLE, advice=RELEASE_ADVICE)
    return answer


def _member(answer: object, key: str) -> object:
    if not isinstance(answer, dict) or key not in answer:
        raise CommandFailed(f"the answer has no {key!r}", exit_code=UNREACHABLE, advice=RELEASE_ADVICE)
    return answer[key]


def read_view(kind: type[View], answer: object) -> View:
    """Return the view that an answer is. Raises CommandFailed."""
    try:
        return adapter(kind).validate_python(answer)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "all of it"
        text = f"the answer cannot be read ({where}: {first['msg']}): the gateway may be of another release"
        raise CommandFailed(text, advice=RELEASE_ADVICE) from None
