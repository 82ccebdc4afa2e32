"""Operations on queues, their messages, cursors and selectors, at the broker that is the home of the queue."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from sluicegate.gateway.machine.operations.rules import AskedBroker, Rules, least_used
from sluicegate.gateway.observability.statistics import ReaderBatch
from sluicegate.gateway.provisioning.queues import LINK_PREFIX
from sluicegate.gateway.views.errors import QueueAlreadyExists, Refused
from sluicegate.gateway.views.queues.cursors import CursorView
from sluicegate.gateway.views.queues.explanations import KeyExplanation
from sluicegate.gateway.views.queues.messages import MessageSearchView, MessageView, RedriveView, TakenView
from sluicegate.gateway.views.queues.queues import DurableSelectorView, NetworkQueueView, QueueMoveView, QueueView
from sluicegate.gateway.views.queues.selections import SCAN_DEFAULT, START, MessageSelection, ReplayStart
from sluicegate.messaging.queues.definition import QueueInvalid, is_named
from sluicegate.messaging.queues.message_filter import MessageId

HOME: Final = "home"  # the field of a request to create a queue that names its broker


class QueueOperations(Rules):
    """Carries out operations on the queues of all brokers, in one message VPN."""

    async def create_queue(self, asked: Mapping[str, object], *, durable: bool | None = None) -> QueueView:
        """Create a queue: at its `home`, or at the broker that has the fewest queues with names that people gave."""
        wanted = {name: value for name, value in asked.items() if name != HOME}
        name = wanted.get("name")
        named = await self._all("queue_names")
        if any(name in names for _, names in named) or await self._is_at_one_away(name):
            raise QueueAlreadyExists(str(name))
        if HOME in asked:
            broker = self._home_asked_for(asked[HOME])
        else:  # a broker's own queues are as many as its clients, and come and go with them
            broker = least_used([(each, [name for name in names if is_named(name)]) for each, names in named])
        return self._view_of(broker.name, await self._at(broker, "create_queue", wanted, durable=durable))

    async def _is_at_one_away(self, name: object) -> bool:
        """Return whether a broker that is not running has a queue of this name, as far as the others know."""
        away = self._away()
        if not away:
            return False
        elsewhere: list[NetworkQueueView] = await self._joined("list_network_queues")
        return any(each.name == name and each.broker in away for each in elsewhere)

    def _home_asked_for(self, home: object) -> AskedBroker:
        staying = {broker.name: broker for broker in self._machine.brokers if not broker.is_retired}
        broker = staying.get(str(home))
        if broker is None:
            raise QueueInvalid(HOME, f"{home!r} is no broker of this machine, or is retired", ", ".join(staying))
        if broker.absence:
            raise Refused(f"broker {home} {broker.absence}")
        return broker

    def _view_of(self, broker: str, view: QueueView) -> QueueView:
        if view.broker:
            return view
        here = {each.name for each in self._machine.brokers}
        flows = tuple([replace(each, of_machine=each.broker in here) for each in view.flows])
        return replace(view, broker=broker, of_machine=True, flows=flows)

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
        there = {view.name for view in found if view.move is None}  # for a moment a queue that moves is at both brokers
        return sorted([each for each in found if each.move is None or each.name not in there], key=_name)

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

    async def search_queue(
        self,
        name: str,
        selection: MessageSelection,
        *,
        partition: int | None = None,
        position: MessageId = START,
        limit: int = 100,
        scan: int = SCAN_DEFAULT,
    ) -> MessageSearchView:
        """Return messages that a selection matches, without removing any."""
        found: MessageSearchView = await self._first(
            "search_queue", name, selection, partition=partition, position=position, limit=limit, scan=scan
        )
        return found

    async def follow_queue(
        self, name: str, *, partition: int | None = None, after: int = 0, selector: str = ""
    ) -> AsyncIterator[MessageView]:
        """Return messages oldest first, and then new ones as they arrive."""
        broker = self._running()[0]
        return await self._stream(broker, "follow_queue", name, partition=partition, after=after, selector=selector)

    async def take_messages(self, name: str, action: str, selection: MessageSelection) -> TakenView:
        """Delete, move or copy messages."""
        taken: TakenView = await self._at_home("take_messages", name, action, selection)
        return taken

    async def republish_messages(self, name: str, ids: Sequence[MessageId], *, remove: bool) -> TakenView:
        """Publish messages again, to where they were published."""
        taken: TakenView = await self._at_home("republish_messages", name, ids, remove=remove)
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

    async def move_queue(self, name: str, to: str, *, drop_kept: bool = False) -> None:
        """Begin to move a queue to another broker, of this machine or another one."""
        if any(each.name == to and each.is_retired for each in self._machine.brokers):
            raise Refused(f"broker {to} is retired: what it has is moved away")
        await self._here_or_anywhere("move_queue", name, to, drop_kept=drop_kept)

    async def cancel_move(self, name: str) -> None:
        """End a move, if nothing of the queue is at the other broker yet."""
        await self._here_or_anywhere("cancel_move", name)

    async def end_move(self, name: str, without: str) -> None:
        """End a move to or from a broker that does not come back."""
        await self._at_home("end_move", name, without)

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
        await self._at_any("delete_cursor", name, cursor)

    async def add_batch(self, name: str, cursor: str, batch: ReaderBatch) -> None:
        """Count a batch that the reader of a durable cursor reports."""
        await self._at_any("add_batch", name, cursor, batch)

    async def list_selectors(self) -> Sequence[DurableSelectorView]:
        """Return the durable selectors, by queue and subscriber."""
        return sorted(await self._joined("list_selectors"), key=lambda each: (each.queue, each.subscriber))

    async def put_selector(self, queue: str, subscriber: str, selectors: Sequence[str]) -> None:
        """Set the selectors of a subscriber."""
        await self._at_home("put_selector", queue, subscriber, selectors)

    async def delete_selector(self, queue: str, subscriber: str) -> None:
        """Delete the selectors of a subscriber."""
        await self._at_home("delete_selector", queue, subscriber)

    async def explain_key(self, queue: str, key: str) -> KeyExplanation:
        """Explain the state of a partition key in a queue."""
        _, explained = await self._here_or_anywhere("explain_key", queue, key)
        found: KeyExplanation = explained
        return found


def _name(view: QueueView) -> str:
    return view.name
