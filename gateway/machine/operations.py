"""The operations of operators on a machine with several brokers, which they see as one.

Each operation follows one of few rules. What has a home (a queue, a client, a bridge) is looked for, broker by broker.
Lists are joined, and totals added up. What holds for all (users, profiles, message VPNs, templates, links) is changed
at all brokers, which therefore have to run, and read at one of them.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

from sluicegate.gateway.machine.channel import ChannelClosed
from sluicegate.gateway.machine.events import MergedEvents
from sluicegate.gateway.machine.merging import (
    merged_backup,
    merged_clients,
    merged_figures,
    merged_health,
    merged_links,
    merged_page_of_queues,
    merged_reload,
    merged_spool,
    merged_subscriptions,
    merged_vpn,
)
from sluicegate.gateway.machine.messages import CALL, END, FOLLOW, NEXT, Call
from sluicegate.gateway.observability.metrics.metric import Sample
from sluicegate.gateway.observability.statistics import ReaderBatch
from sluicegate.gateway.operations.interface import NodeInterface
from sluicegate.gateway.provisioning.queues import LINK_PREFIX
from sluicegate.gateway.views.bridges import BridgeView
from sluicegate.gateway.views.clients.accounts import AclException, ProfileKind, ProfilesView, ProfileView, UserView
from sluicegate.gateway.views.clients.clients import ClientQuery, ClientsView
from sluicegate.gateway.views.clients.message_vpns import MessageVpnsView, MessageVpnView
from sluicegate.gateway.views.clients.subscriptions import SmrpQuery, SmrpSubscriptionsView
from sluicegate.gateway.views.errors import ClientNotFound, NotFound, QueueAlreadyExists, QueueNotFound, Refused
from sluicegate.gateway.views.links import LinksView, LinkView
from sluicegate.gateway.views.node.backups import BackupView
from sluicegate.gateway.views.node.figures import NodeFigures, QueuesFigures, QueuesQuery
from sluicegate.gateway.views.node.runtime import ActorView, EventView, Health, ReloadView
from sluicegate.gateway.views.node.spool import SpoolView
from sluicegate.gateway.views.queues.cursors import CursorView
from sluicegate.gateway.views.queues.explanations import ExampleMessage, KeyExplanation, PublishExplanation
from sluicegate.gateway.views.queues.messages import MessageView, RedriveView, TakenView
from sluicegate.gateway.views.queues.queues import DurableSelectorView, NetworkQueueView, QueueMoveView, QueueView
from sluicegate.gateway.views.queues.selections import MessageSelection, ReplayStart
from sluicegate.gateway.views.rest import RestDeliveryPointView
from sluicegate.messaging.message.vpn import DEFAULT_VPN
from sluicegate.messaging.queues.definition import QueueInvalid
from sluicegate.messaging.queues.template import QueueTemplate

HOME: Final = "home"  # the field of a request to create a queue that names its broker


class AskedBroker(Protocol):
    """One broker, as operations use it."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def is_ready(self) -> bool:
        """Whether it takes traffic."""

    async def ask(self, verb: str, *arguments: Any) -> Any:
        """Have it carry out a request. Raises ChannelClosed if it does not run, and what it raises."""


Undo = Callable[[AskedBroker], Awaitable[object]]  # takes a change back at one broker


class Machine(Protocol):
    """All brokers of the machine."""

    @property
    def brokers(self) -> Sequence[AskedBroker]:
        """The brokers, in the order of their numbers."""

    async def reload(self) -> list[ReloadView]:
        """Read the configuration, and put it in force in all brokers that run. Raises Refused."""

    def samples(self) -> list[Sample]:
        """Return the samples of the supervisor itself."""


class MachineOperations(NodeInterface):
    """The operations on one message VPN of the machine."""

    def __init__(self, machine: Machine, vpn: str = DEFAULT_VPN, events: MergedEvents | None = None) -> None:
        """`events` are shared by the views of all message VPNs; without them this view makes its own."""
        self._machine = machine
        self._vpn = vpn
        self._events = events or MergedEvents()

    def in_vpn(self, name: str) -> "MachineOperations":
        """Return the operations on another message VPN; that it exists is known with the first one."""
        return MachineOperations(self._machine, name, self._events)

    # --- the rules ---

    async def _at(self, broker: AskedBroker, operation: str, *given: Any, **options: Any) -> Any:
        """Carry out an operation at one broker."""
        return await broker.ask(CALL, Call(self._vpn, operation, given, tuple(options.items())))

    def _running(self) -> list[AskedBroker]:
        """Return the brokers that take traffic. Raises Refused if there is none."""
        found = [broker for broker in self._machine.brokers if broker.is_ready]
        if not found:
            raise Refused("no broker of this machine is running; try again in a moment")
        return found

    def _every(self) -> list[AskedBroker]:
        """Return all brokers. Raises Refused unless all are running."""
        if away := self._away():
            raise Refused(f"the change has to reach every broker, and {', '.join(away)} is not running; try again")
        return list(self._machine.brokers)

    def _away(self) -> list[str]:
        """Return the names of the brokers that take no traffic."""
        return [broker.name for broker in self._machine.brokers if not broker.is_ready]

    async def _first(self, operation: str, *given: Any, **options: Any) -> Any:
        """Carry out at one broker what all of them would answer alike."""
        return await self._at(self._running()[0], operation, *given, **options)

    async def _all(self, operation: str, *given: Any, **options: Any) -> list[tuple[AskedBroker, Any]]:
        """Carry out at all brokers that run; one that dies meanwhile is left out."""

        async def at(broker: AskedBroker) -> tuple[AskedBroker, Any] | None:
            try:
                return broker, await self._at(broker, operation, *given, **options)
            except ChannelClosed:
                return None

        answers = await asyncio.gather(*[at(broker) for broker in self._running()])
        return [each for each in answers if each is not None]

    async def _joined(self, operation: str, *given: Any, **options: Any) -> list[Any]:
        """Return the lists of all brokers, one behind the other."""
        return [each for _, answer in await self._all(operation, *given, **options) for each in answer]

    async def _where_it_is(self, operation: str, *given: Any, **options: Any) -> tuple[AskedBroker, Any]:
        """Carry out at the broker that has the object of the operation. Raises NotFound if none has it."""
        missing: NotFound | None = None
        for broker in self._running():
            try:
                return broker, await self._at(broker, operation, *given, **options)
            except NotFound as error:
                missing = missing or error
        assert missing is not None, "a broker is running"
        if away := self._away():
            raise Refused(f"{missing}; not running: {', '.join(away)}")
        raise missing

    async def _at_home(self, operation: str, *given: Any, **options: Any) -> Any:
        _, answer = await self._where_it_is(operation, *given, **options)
        return answer

    async def _here_or_anywhere(self, operation: str, *given: Any, **options: Any) -> tuple[str, Any]:
        """Carry out at the broker that has a queue; return its name. A queue of another machine: by its link."""
        try:
            broker, answer = await self._where_it_is(f"{operation}_here", *given, **options)
        except QueueNotFound:
            return "", await self._first(operation, *given, **options)
        return broker.name, answer

    async def _everywhere(self, operation: str, *given: Any, undo: Undo | None = None, **options: Any) -> Any:
        """Carry out a change at all brokers; return the answer of the first, which checks it before the others.

        If one refuses what others have taken, those undo it, where that is possible. Raises Refused.
        """
        first, *others = self._every()
        answer = await self._at(first, operation, *given, **options)
        done = [first]
        for broker in others:
            try:
                await self._at(broker, operation, *given, **options)
            except Exception as error:
                reason = str(error) or type(error).__name__
                if undo is None:
                    names = ", ".join(each.name for each in done)
                    text = f"broker {broker.name} has not taken it over, {names} has: {reason}; repeat it"
                    raise Refused(text) from error
                for each in done:
                    await undo(each)
                raise Refused(f"broker {broker.name} has refused it, so nothing is changed: {reason}") from error
            done.append(broker)
        return answer

    # --- message VPNs ---

    async def list_message_vpns(self) -> MessageVpnsView:
        """Return every message VPN, by name."""
        by_name: dict[str, list[MessageVpnView]] = {}
        for _, view in await self._all("list_message_vpns"):
            for each in view.message_vpns:
                by_name.setdefault(each.name, []).append(each)
        return MessageVpnsView(tuple([merged_vpn(views) for _, views in sorted(by_name.items())]))

    async def show_message_vpn(self, name: str) -> MessageVpnView:
        """Return one message VPN."""
        return merged_vpn([view for _, view in await self._all("show_message_vpn", name)])

    async def create_message_vpn(self, asked: Mapping[str, object]) -> MessageVpnView:
        """Create a message VPN."""
        await self._everywhere(
            "create_message_vpn",
            asked,
            undo=lambda broker: self._at(broker, "delete_message_vpn", asked.get("name"), force=True),
        )
        return await self.show_message_vpn(str(asked.get("name")))

    async def update_message_vpn(self, name: str, changes: Mapping[str, object]) -> MessageVpnView:
        """Change settings of a message VPN."""
        await self._everywhere("update_message_vpn", name, changes)
        return await self.show_message_vpn(name)

    async def delete_message_vpn(self, name: str, *, force: bool) -> None:
        """Delete a message VPN."""
        await self._everywhere("delete_message_vpn", name, force=force)

    # --- queues ---

    async def create_queue(self, asked: Mapping[str, object], *, durable: bool | None = None) -> QueueView:
        """Create a queue: at its `home`, or at the broker that has the fewest queues."""
        wanted = {name: value for name, value in asked.items() if name != HOME}
        name = wanted.get("name")
        named = await self._all("queue_names")
        if any(name in names for _, names in named) or await self._is_at_one_away(name):
            raise QueueAlreadyExists(str(name))
        broker = self._home_asked_for(asked[HOME]) if HOME in asked else _home_for(wanted.get("dead_msg_queue"), named)
        return self._view_of(broker.name, await self._at(broker, "create_queue", wanted, durable=durable))

    async def _is_at_one_away(self, name: object) -> bool:
        """Return whether a broker that is not running has a queue of this name, as far as the others know."""
        away = self._away()
        if not away:
            return False
        elsewhere: list[NetworkQueueView] = await self._joined("list_network_queues")
        return any(each.name == name and each.broker in away for each in elsewhere)

    def _home_asked_for(self, home: object) -> AskedBroker:
        names = [broker.name for broker in self._machine.brokers]
        if home not in names:
            raise QueueInvalid(HOME, f"{home!r} is no broker of this machine", ", ".join(names))
        broker = self._machine.brokers[names.index(str(home))]
        if not broker.is_ready:
            raise Refused(f"broker {home} is not running")
        return broker

    @staticmethod
    def _view_of(broker: str, view: QueueView) -> QueueView:
        return view if view.broker else replace(view, broker=broker)

    async def update_queue(self, name: str, changes: Mapping[str, object]) -> QueueView:
        """Change attributes or subscriptions."""
        broker, view = await self._where_it_is("update_queue", name, changes)
        return self._view_of(broker.name, view)

    async def add_subscription(self, queue: str, topic: str) -> None:
        """Add a topic to a queue."""
        await self._at_home("add_subscription", queue, topic)

    async def remove_subscription(self, queue: str, topic: str) -> None:
        """Remove a topic from a queue."""
        await self._at_home("remove_subscription", queue, topic)

    async def delete_queue(self, name: str) -> None:
        """Delete a queue with all it holds."""
        await self._at_home("delete_queue", name)

    async def list_queues(self, *, of_client: str | None = None) -> Sequence[QueueView]:
        """Return every queue by name, or those that a client consumes or browses."""
        answers = await self._all("list_queues", of_client=of_client)
        between = self._queues_of_links()
        found = [
            self._view_of(broker.name, view) for broker, views in answers for view in views if view.name not in between
        ]
        return sorted(found, key=lambda view: view.name)

    def _queues_of_links(self) -> tuple[str, ...]:
        """Return the names of the queues of the links between the brokers: they are listed as little as these links."""
        return tuple([f"{LINK_PREFIX}{broker.name}" for broker in self._machine.brokers])

    async def list_network_queues(self) -> Sequence[NetworkQueueView]:
        """Return the queues of brokers of other machines, by name."""
        here = {broker.name for broker in self._machine.brokers}
        queues: list[NetworkQueueView] = await self._first("list_network_queues")
        return [each for each in queues if each.broker not in here]

    async def queue_names(self) -> Sequence[str]:
        """Return the names of all queues, in no order."""
        between = self._queues_of_links()
        return [name for name in await self._joined("queue_names") if name not in between]

    async def show_queue(self, name: str) -> QueueView:
        """Return one queue with its partitions and flows."""
        broker, view = await self._here_or_anywhere("show_queue", name)
        return self._view_of(broker, view)

    async def purge_queue(self, name: str) -> int:
        """Remove waiting messages; return how many."""
        count: int = await self._at_home("purge_queue", name)
        return count

    async def browse_queue(
        self, name: str, *, partition: int | None = None, after: int = 0, limit: int = 100, selector: str = ""
    ) -> Sequence[MessageView]:
        """Return messages oldest first, without removing any."""
        page: Sequence[MessageView] = await self._first(
            "browse_queue", name, partition=partition, after=after, limit=limit, selector=selector
        )
        return page

    async def follow_queue(
        self, name: str, *, partition: int | None = None, after: int = 0, selector: str = ""
    ) -> AsyncIterator[MessageView]:
        """Return messages oldest first, and then new ones as they arrive."""
        broker = self._running()[0]
        options = (("partition", partition), ("after", after), ("selector", selector))
        number: int = await broker.ask(FOLLOW, Call(self._vpn, "follow_queue", (name,), options))
        return self._followed(broker, number)

    @staticmethod
    async def _followed(broker: AskedBroker, number: int) -> AsyncIterator[MessageView]:
        try:
            while messages := await broker.ask(NEXT, number):
                for message in messages:
                    yield message
        except ChannelClosed:
            return  # the broker has ended, and so have its queues
        finally:
            if broker.is_ready:
                await broker.ask(END, number)

    async def list_templates(self) -> Sequence[QueueTemplate]:
        """Return every queue template by name."""
        templates: Sequence[QueueTemplate] = await self._first("list_templates")
        return templates

    async def put_template(self, template: QueueTemplate, *, must_be_new: bool) -> None:
        """Store a queue template."""
        undo = (lambda broker: self._at(broker, "delete_template", template.name)) if must_be_new else None
        await self._everywhere("put_template", template, must_be_new=must_be_new, undo=undo)

    async def update_template(self, name: str, changes: Mapping[str, object]) -> QueueTemplate:
        """Change some fields of a queue template."""
        template: QueueTemplate = await self._everywhere("update_template", name, changes)
        return template

    async def delete_template(self, name: str) -> None:
        """Delete a queue template."""
        await self._everywhere("delete_template", name)

    async def take_messages(self, name: str, action: str, selection: MessageSelection) -> TakenView:
        """Delete, move or copy messages."""
        taken: TakenView = await self._at_home("take_messages", name, action, selection)
        return taken

    async def start_redrive(self, name: str, selection: MessageSelection) -> RedriveView:
        """Start a re-drive of dead messages."""
        view: RedriveView = await self._at_home("start_redrive", name, selection)
        return view

    async def show_redrive(self, name: str) -> RedriveView:
        """Return the progress of the latest re-drive."""
        view: RedriveView = await self._at_home("show_redrive", name)
        return view

    async def cancel_redrive(self, name: str) -> RedriveView:
        """Cancel the re-drive."""
        view: RedriveView = await self._at_home("cancel_redrive", name)
        return view

    async def replay_queue(self, name: str, start: ReplayStart, *, end: int, partition: int | None) -> int:
        """Replay kept messages; return how many."""
        _, count = await self._here_or_anywhere("replay_queue", name, start, end=end, partition=partition)
        return int(count)

    async def move_queue(self, name: str, broker: str) -> None:
        """Begin to move a queue to another broker, of this machine or another one."""
        await self._at_home("move_queue", name, broker)

    async def keep_queue(self, name: str) -> None:
        """End a move, if nothing of the queue is at the other broker yet."""
        await self._at_home("keep_queue", name)

    async def list_moves(self) -> Sequence[QueueMoveView]:
        """Return the queues of all brokers that are being moved, by name."""
        found: list[QueueMoveView] = await self._joined("list_moves")
        return sorted(found, key=lambda view: view.name)

    async def list_cursors(self, name: str) -> Sequence[CursorView]:
        """Return a queue's durable cursors by name."""
        _, cursors = await self._here_or_anywhere("list_cursors", name)
        found: Sequence[CursorView] = cursors
        return found

    async def delete_cursor(self, name: str, cursor: str) -> None:
        """Delete a durable cursor."""
        await self._first("delete_cursor", name, cursor)

    async def add_batch(self, name: str, cursor: str, batch: ReaderBatch) -> None:
        """Count a batch that the reader of a durable cursor reports."""
        await self._first("add_batch", name, cursor, batch)

    async def list_selectors(self) -> Sequence[DurableSelectorView]:
        """Return the durable selectors, by queue and subscriber."""
        return sorted(await self._joined("list_selectors"), key=lambda each: (each.queue, each.subscriber))

    async def put_selector(self, queue: str, subscriber: str, selectors: Sequence[str]) -> None:
        """Set the selectors of a subscriber."""
        await self._at_home("put_selector", queue, subscriber, selectors)

    async def delete_selector(self, queue: str, subscriber: str) -> None:
        """Delete the selectors of a subscriber."""
        await self._at_home("delete_selector", queue, subscriber)

    # --- the node ---

    async def reload(self) -> ReloadView:
        """Reload the configuration."""
        return merged_reload(await self._machine.reload())

    async def node_figures(self) -> NodeFigures:
        """Return the totals."""
        return merged_figures([figures for _, figures in await self._all("node_figures")])

    async def queues_figures(self, question: QueuesQuery) -> QueuesFigures:
        """Return a page of the figures of queues, by name."""
        whole = replace(question, after=0, limit=question.after + question.limit, without=self._queues_of_links())
        return merged_page_of_queues([page for _, page in await self._all("queues_figures", whole)], question)

    async def show_spool(self) -> SpoolView:
        """Return the spools together."""
        return merged_spool([(broker.name, spool) for broker, spool in await self._all("show_spool")])

    async def start_backup(self, name: str) -> BackupView:
        """Start a backup of all spools, in one folder."""
        first, *others = self._every()
        begun: BackupView = await self._at(first, "start_backup", name)
        views = [begun]
        for broker in others:
            try:
                views.append(await self._at(broker, "start_backup", begun.name))
            except (Refused, QueueInvalid):
                await self._all("cancel_backup")
                raise
        return merged_backup(views)

    async def show_backup(self) -> BackupView:
        """Return the progress of the latest backup."""
        return merged_backup([view for _, view in await self._all("show_backup")])

    async def cancel_backup(self) -> BackupView:
        """Cancel the backup that is running."""
        return merged_backup([view for _, view in await self._all("cancel_backup")])

    async def list_clients(self, question: ClientQuery) -> ClientsView:
        """Return a page of the connected clients, by name."""
        whole = replace(question, after=0, limit=question.after + question.limit)
        return merged_clients([page for _, page in await self._all("list_clients", whole)], question)

    async def client_names(self) -> Sequence[str]:
        """Return the name of every connected client, once for each connection."""
        return await self._joined("client_names")

    async def disconnect_client(self, name: str) -> None:
        """Disconnect a client, of whichever brokers it is one."""
        missing: ClientNotFound | None = None
        found = False
        for broker in self._running():
            try:
                await self._at(broker, "disconnect_client", name)
                found = True
            except ClientNotFound as error:
                missing = error
        if not found and missing is not None:
            raise missing

    async def actor_tree(self) -> Sequence[ActorView]:
        """Return the actors of all brokers: each broker's name is the root of its own."""
        return await self._joined("actor_tree")

    async def events(self, *, after: int, limit: int) -> Sequence[EventView]:
        """Return the latest events, oldest first, with numbers of the machine."""
        for broker in self._running():
            try:
                self._events.take(
                    broker.name,
                    await self._at(broker, "events", after=self._events.last_of(broker.name), limit=limit),
                )
            except ChannelClosed:
                continue
        return self._events.recent(after, limit)

    async def list_rest_delivery_points(self) -> Sequence[RestDeliveryPointView]:
        """Return every delivery point by name."""
        return sorted(await self._joined("list_rest_delivery_points"), key=lambda each: str(each.name))

    async def show_rest_delivery_point(self, name: str) -> RestDeliveryPointView:
        """Return one delivery point."""
        view: RestDeliveryPointView = await self._at_home("show_rest_delivery_point", name)
        return view

    async def create_rest_delivery_point(self, asked: Mapping[str, object]) -> RestDeliveryPointView:
        """Create and start a delivery point, at the broker that has the fewest."""
        broker = await self._with_fewest("list_rest_delivery_points", asked.get("name"), "show_rest_delivery_point")
        view: RestDeliveryPointView = await self._at(broker, "create_rest_delivery_point", asked)
        return view

    async def update_rest_delivery_point(self, name: str, changes: Mapping[str, object]) -> RestDeliveryPointView:
        """Change a delivery point that operators created."""
        view: RestDeliveryPointView = await self._at_home("update_rest_delivery_point", name, changes)
        return view

    async def delete_rest_delivery_point(self, name: str) -> None:
        """Delete a delivery point that operators created."""
        await self._at_home("delete_rest_delivery_point", name)

    async def list_bridges(self) -> Sequence[BridgeView]:
        """Return every bridge by name."""
        return sorted(await self._joined("list_bridges"), key=lambda each: str(each.name))

    async def show_bridge(self, name: str) -> BridgeView:
        """Return one bridge."""
        view: BridgeView = await self._at_home("show_bridge", name)
        return view

    async def create_bridge(self, asked: Mapping[str, object]) -> BridgeView:
        """Create and start a bridge, at the broker that has the fewest."""
        broker = await self._with_fewest("list_bridges", asked.get("name"), "show_bridge")
        view: BridgeView = await self._at(broker, "create_bridge", asked)
        return view

    async def _with_fewest(self, listing: str, name: object, show: str) -> AskedBroker:
        """Return the broker with the fewest objects of a kind; the one that has an object of the name, if one has."""
        answers = await self._all(listing)
        for broker, views in answers:
            if any(each.name == name for each in views):
                return broker  # which refuses another one
        return min(answers, key=lambda each: len(each[1]))[0]

    async def update_bridge(self, name: str, changes: Mapping[str, object]) -> BridgeView:
        """Change a bridge that operators created."""
        view: BridgeView = await self._at_home("update_bridge", name, changes)
        return view

    async def delete_bridge(self, name: str) -> None:
        """Delete a bridge that operators created."""
        await self._at_home("delete_bridge", name)

    async def pause_bridge(self, name: str) -> BridgeView:
        """Disconnect a bridge until it is resumed, or the node restarts."""
        view: BridgeView = await self._at_home("pause_bridge", name)
        return view

    async def resume_bridge(self, name: str) -> BridgeView:
        """Connect a bridge that is paused, waits, or has given up."""
        view: BridgeView = await self._at_home("resume_bridge", name)
        return view

    # --- users and profiles ---

    async def list_users(self) -> Sequence[UserView]:
        """Return every user by name."""
        users: Sequence[UserView] = await self._first("list_users")
        return users

    async def show_user(self, name: str) -> UserView:
        """Return one user."""
        user: UserView = await self._first("show_user", name)
        return user

    async def create_user(self, asked: Mapping[str, object]) -> UserView:
        """Create a user; the password is in plain."""
        user: UserView = await self._everywhere(
            "create_user", asked, undo=lambda broker: self._at(broker, "delete_user", asked.get("name"))
        )
        return user

    async def update_user(self, name: str, changes: Mapping[str, object]) -> UserView:
        """Change a user that operators created."""
        user: UserView = await self._everywhere("update_user", name, changes)
        return user

    async def delete_user(self, name: str) -> None:
        """Delete a user that operators created, and disconnect its clients."""
        await self._everywhere("delete_user", name)

    async def list_profiles(self) -> ProfilesView:
        """Return the client and ACL profiles that users may have, by name."""
        profiles: ProfilesView = await self._first("list_profiles")
        return profiles

    async def show_profile(self, kind: ProfileKind, name: str) -> ProfileView:
        """Return one profile."""
        profile: ProfileView = await self._first("show_profile", kind, name)
        return profile

    async def create_profile(self, kind: ProfileKind, asked: Mapping[str, object]) -> ProfileView:
        """Create a profile."""
        profile: ProfileView = await self._everywhere(
            "create_profile",
            kind,
            asked,
            undo=lambda broker: self._at(broker, "delete_profile", kind, asked.get("name")),
        )
        return profile

    async def update_profile(self, kind: ProfileKind, name: str, changes: Mapping[str, object]) -> ProfileView:
        """Change a profile that operators created."""
        profile: ProfileView = await self._everywhere("update_profile", kind, name, changes)
        return profile

    async def delete_profile(self, kind: ProfileKind, name: str) -> None:
        """Delete a profile that operators created and no user has."""
        await self._everywhere("delete_profile", kind, name)

    async def add_acl_exception(self, profile: str, field: str, exception: AclException) -> None:
        """Add to a list of an ACL profile."""
        await self._everywhere("add_acl_exception", profile, field, exception)

    async def remove_acl_exception(self, profile: str, field: str, key: str) -> None:
        """Remove from a list of an ACL profile."""
        await self._everywhere("remove_acl_exception", profile, field, key)

    # --- the network ---

    async def list_links(self) -> LinksView:
        """Return the links to brokers of other machines, by name."""
        here = {broker.name for broker in self._machine.brokers}
        return merged_links([view for _, view in await self._all("list_links")], here)

    async def show_link(self, name: str) -> LinkView:
        """Return one link."""
        link: LinkView = await self._first("show_link", name)
        return link

    async def create_link(self, asked: Mapping[str, object]) -> LinkView:
        """Create a link, of each broker."""
        link: LinkView = await self._everywhere(
            "create_link", asked, undo=lambda broker: self._at(broker, "delete_link", asked.get("name"))
        )
        return link

    async def update_link(self, name: str, changes: Mapping[str, object]) -> LinkView:
        """Change a link that an operator created; it begins anew."""
        link: LinkView = await self._everywhere("update_link", name, changes)
        return link

    async def delete_link(self, name: str) -> None:
        """Delete a link that an operator created."""
        await self._everywhere("delete_link", name)

    async def forget_neighbor(self, name: str, *, vpn: str = "", force: bool) -> None:
        """Delete what is kept for a neighbor broker that has no link."""
        await self._everywhere("forget_neighbor", name, vpn=vpn, force=force)

    async def smrp_subscriptions(self, question: SmrpQuery) -> SmrpSubscriptionsView:
        """Return a page of the subscriptions of clients and queues, by destination."""
        here = tuple([broker.name for broker in self._machine.brokers])
        whole = replace(question, after=0, limit=question.after + question.limit, without=here)
        return merged_subscriptions([page for _, page in await self._all("smrp_subscriptions", whole)], question)

    async def explain_publish(self, message: ExampleMessage, *, queue: str | None) -> PublishExplanation:
        """Explain the routing of a message to its topic, or to a queue."""
        explained: PublishExplanation = await self._first("explain_publish", message, queue=queue)
        return explained

    async def explain_key(self, queue: str, key: str) -> KeyExplanation:
        """Explain the state of a partition key in a queue."""
        _, explained = await self._here_or_anywhere("explain_key", queue, key)
        found: KeyExplanation = explained
        return found

    async def metrics_snapshot(self) -> Sequence[Sample]:
        """Return the samples of all brokers, each with the broker's name, and those of the supervisor."""
        answers = await self._all("metrics_snapshot")
        return [*_of_brokers((broker.name, samples) for broker, samples in answers), *self._machine.samples()]

    async def health(self) -> Health:
        """Return whether the machine works and accepts traffic: while at least one broker does, it does."""
        answers: dict[str, Health] = {}
        for broker in self._machine.brokers:
            if broker.is_ready:
                try:
                    answers[broker.name] = await self._at(broker, "health")
                except ChannelClosed:
                    continue
        return merged_health([broker.name for broker in self._machine.brokers], answers)


def _home_for(dead_msg_queue: object, named: Sequence[tuple[AskedBroker, Sequence[str]]]) -> AskedBroker:
    """Return the broker for a new queue: that of the dead message queue that it names, else the one with the fewest.

    Dead messages do not cross links.
    """
    for broker, names in named:
        if dead_msg_queue in names:
            return broker
    return min(named, key=lambda each: len(each[1]))[0]


def _of_brokers(answers: Iterable[tuple[str, Sequence[Sample]]]) -> list[Sample]:
    return [sample._replace(broker=broker) for broker, samples in answers for sample in samples]
