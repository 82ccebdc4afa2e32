"""Publishing for operators: each request has an actor of its own, which the spool confirms to."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from sluicegate.actors.messages.data import Confirmed, PublishFailed
from sluicegate.actors.publishing.publisher import Publisher
from sluicegate.actors.runtime.actor import LoopActor
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.actors.runtime.supervision import ONE_CONNECTION
from sluicegate.gateway.node.node import Node
from sluicegate.gateway.node.vpn import MessageVpn
from sluicegate.gateway.views.clients.messaging import OperatorMessage, PublishedView
from sluicegate.messaging.message.batch import AT_LEAST_ONCE, AT_MOST_ONCE, MessageBatch
from sluicegate.messaging.message.headers import Headers
from sluicegate.messaging.message.keys import key_hash
from sluicegate.messaging.message.refusals import ADMITTED

PUBLISHER: Final = "admin"  # as consumers and events name it
TURN: Final = 50  # messages, before others have their turn


class OperatorPublisher(LoopActor):
    """Counts the confirmations of one request."""

    def __init__(self, cell: ActorCell) -> None:
        super().__init__(cell)
        self.pending: dict[int, int] = {}  # token -> confirmations to come
        self.failures: dict[int, str] = {}  # token -> why it could not be stored
        self.answered = asyncio.Event()

    def on_receive(self, message: Confirmed | PublishFailed) -> None:
        """Count one."""
        if isinstance(message, PublishFailed):
            self.failures.setdefault(message.token, message.text())
        left = self.pending.get(message.token, 0) - 1
        if left > 0:
            self.pending[message.token] = left
        else:
            self.pending.pop(message.token, None)
        if not self.pending:
            self.answered.set()

    async def all_answered(self) -> None:
        """Wait until nothing is pending."""
        while self.pending:
            self.answered.clear()
            await self.answered.wait()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one message."""

    refusal: str  # why it was not published; empty: it was
    matched: bool  # somebody got it
    stored: bool = False  # a queue did, and has confirmed it


async def publish_message(node: Node, vpn: MessageVpn, message: OperatorMessage) -> PublishedView:
    """Publish a message as often as it says; return when all are safe or refused. It ends with the first refusal."""
    wall_ms = node.services.clock.wall_ms()
    outcomes = await publish_batches(node, vpn, (_batch(message, wall_ms) for _ in range(message.count)), stops=True)
    published = [each for each in outcomes if not each.refusal]
    return PublishedView(
        published_count=len(published),
        unmatched_count=sum(not each.matched for each in published),
        refused_count=message.count - len(published),
        refusal=next((each.refusal for each in outcomes if each.refusal), ""),
    )


async def publish_batches(
    node: Node, vpn: MessageVpn, batches: Iterable[MessageBatch], *, stops: bool
) -> list[Outcome]:
    """Publish batches of one message each; return when all are safe or refused. `stops`: with the first refusal."""
    services = node.services
    cell = services.runtime.spawn(
        OperatorPublisher,
        kind="publisher",
        name=f"publisher-{services.runtime.next_urn()}",
        policy=ONE_CONNECTION,
        parent=services.root,
    )
    outcomes: list[Outcome] = []
    try:
        actor = cell.actor
        assert isinstance(actor, OperatorPublisher)
        publisher = Publisher(space=vpn.space, spool=services.spool.inbox, address=cell.inbox, rng=services.runtime.rng)
        publisher.hears_of_retained = True
        for token, batch in enumerate(batches):
            if token and token % TURN == 0:
                await actor.all_answered()
                await asyncio.sleep(0)
            result = publisher.publish(batch, token)
            if result.confirmations_pending:
                actor.pending[token] = result.confirmations_pending
            refusal = "" if result.refusal == ADMITTED else result.reason()
            outcomes.append(Outcome(refusal, result.routed, stored=result.confirmations_pending > 0))
            if stops and outcomes[-1].refusal:
                break
        await actor.all_answered()
        for token, reason in actor.failures.items():
            outcomes[token] = Outcome(reason, outcomes[token].matched)
    finally:
        cell.stop()
    return outcomes


def _batch(message: OperatorMessage, wall_ms: int) -> MessageBatch:
    headers = Headers(
        partition_key=message.key,
        key_hash=-1 if message.key is None else key_hash(message.key),
        expires_at_ms=wall_ms + message.expiry_ms if message.expiry_ms else 0,
        priority=message.priority,
        payload_is_text=message.is_text,
        content_type=message.content_type,
        correlation=None if message.correlation_id is None else message.correlation_id.encode(),
        reply_to=message.reply_to,
        user_properties=list(message.properties) or None,
    )
    return MessageBatch(
        topic=message.topic,
        topics=None,
        payloads=[message.payload],
        headers=[headers],
        qos=AT_MOST_ONCE if message.is_direct else AT_LEAST_ONCE,
        retain=message.retain,
        publisher=PUBLISHER,
        received_ms=wall_ms,
        payload_bytes=len(message.payload),
    )
