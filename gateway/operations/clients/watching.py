"""Watching topics: an operator sees messages as they are published, and never holds the broker up.

A watch is a subscription for direct messages. What comes faster than an operator reads is counted and dropped.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from typing import Any, Final

from sluicegate.actors.messages.router import AddSubscription, RemoveSubscription
from sluicegate.actors.runtime.actor import LoopActor
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.actors.runtime.supervision import ONE_CONNECTION
from sluicegate.gateway.node.node import Node
from sluicegate.gateway.node.vpn import MessageVpn
from sluicegate.gateway.views.clients.messaging import WatchedMessageView
from sluicegate.gateway.views.errors import Refused
from sluicegate.gateway.views.queues.messages import PropertiesPreview, payload_preview
from sluicegate.messaging.message.batch import AT_MOST_ONCE, MessageBatch
from sluicegate.messaging.queues.definition import QueueInvalid
from sluicegate.messaging.routing.destinations import DELIVER_ALWAYS, Subscriber
from sluicegate.messaging.topics.syntax import TopicError, TopicFilter, parse_filter, syntax_of

KIND: Final = "watcher"  # of the actors
WATCHES_MAX: Final = 20  # of one node at a time
WAITING_MAX: Final = 500  # messages that the operator has not read yet, each with at most 4 KiB of its payload
SPAN_MS: Final = 100
SPAN_MESSAGES_MAX: Final = 20  # shown in a span: 200 a second are more than anybody reads


class WatcherActor(LoopActor):
    """Takes direct messages: the first of each span of time, as long as there is room."""

    def __init__(self, cell: ActorCell) -> None:
        super().__init__(cell)
        self.waiting: deque[WatchedMessageView] = deque()
        self.arrived = asyncio.Event()
        self.is_over = False
        self._dropped_count = 0  # since the last message that waits
        self._span_began_ms = 0
        self._room = 0

    def on_receive(self, message: Any) -> None:
        """Take the messages of a batch, or count them."""
        assert isinstance(message, MessageBatch), "it is no member of a shared group"
        now_ms = self.runtime.clock.now_ms()
        if now_ms - self._span_began_ms >= SPAN_MS:
            self._span_began_ms, self._room = now_ms, SPAN_MESSAGES_MAX
        taken = min(message.count, self._room, WAITING_MAX - len(self.waiting))
        payloads = message.payloads() if taken else []
        for row in range(taken):
            self.waiting.append(_view(message, row, payloads[row], self._dropped_count))
            self._dropped_count = 0
        self._room -= taken
        self._dropped_count += message.count - taken
        if taken:
            self.arrived.set()

    def on_stop(self) -> None:
        """End the stream: the node stops."""
        self.is_over = True
        self.arrived.set()


def watched_filter(text: str) -> TopicFilter:
    """Return the filter of a text in one of the two syntaxes. Raises QueueInvalid."""
    try:
        return parse_filter(text, syntax_of(text))
    except TopicError as problem:
        raise QueueInvalid("topic", str(problem), "a topic filter such as orders/# or orders/>") from None


async def watch_topics(
    node: Node, vpn: MessageVpn, topic_filter: TopicFilter
) -> AsyncGenerator[WatchedMessageView, None]:
    """Return the messages that match a filter, from now on, until the node stops. Raises Refused: too many watch."""
    watching = [each for each in node.services.root.children or () if each.kind == KIND]
    if len(watching) >= WATCHES_MAX:
        raise Refused(f"{WATCHES_MAX} operators watch topics already, which is the most at a time")
    return _messages(node, vpn, topic_filter)


async def _messages(node: Node, vpn: MessageVpn, topic_filter: TopicFilter) -> AsyncGenerator[WatchedMessageView, None]:
    services = node.services
    cell = services.runtime.spawn(
        WatcherActor,
        kind=KIND,
        name=f"{KIND}-{services.runtime.next_urn()}",
        policy=ONE_CONNECTION,
        parent=services.root,
    )
    watcher = cell.actor
    assert isinstance(watcher, WatcherActor)
    subscriber = Subscriber(cell.name)
    subscriber.address = cell.inbox
    subscriber.priority = DELIVER_ALWAYS  # it takes no message that goes to one subscriber only from another
    wanted = AddSubscription(subscriber, topic_filter, AT_MOST_ONCE, retained_if_new=False, retained_if_known=False)
    try:
        await vpn.router.ask(wanted)
        while not watcher.is_over:
            while watcher.waiting:
                yield watcher.waiting.popleft()
            watcher.arrived.clear()
            await watcher.arrived.wait()
    finally:
        subscriber.address = None
        vpn.router.inbox.post(RemoveSubscription(subscriber, topic_filter))
        cell.stop()


def _view(batch: MessageBatch, row: int, payload: bytes, dropped_count: int) -> WatchedMessageView:
    headers = batch.headers_of(row)
    text, encoding, truncated = payload_preview(payload)
    preview = PropertiesPreview()
    return WatchedMessageView(
        topic=batch.topic_of(row),
        publisher=batch.publisher,
        received_ms=batch.received_ms,
        qos=batch.qos,
        retain=batch.retain,
        key=None if headers is None else headers.partition_key,
        content_type=None if headers is None else preview.text(headers.content_type),
        reply_to=None if headers is None else preview.text(headers.reply_to),
        correlation_id=None if headers is None else preview.correlation(headers.correlation),
        properties=() if headers is None else preview.user_properties(headers.user_properties),
        properties_truncated=preview.truncated,
        size_bytes=len(payload),
        payload=text,
        payload_encoding=encoding,
        payload_truncated=truncated,
        dropped_count=dropped_count,
    )
