"""A full mesh of brokers that are nothing but their routing: links that carry interest and batches at once."""

import random
from dataclasses import dataclass, field

from sluicegate.actors.messages.data import Append, SharedDirect
from sluicegate.actors.publishing.link_publisher import LinkPublisher
from sluicegate.actors.publishing.publisher import Publisher
from sluicegate.actors.publishing.result import PublishResult
from sluicegate.actors.runtime.actor import LoopActor
from sluicegate.actors.runtime.runtime import ActorCell, Runtime
from sluicegate.actors.runtime.supervision import ONE_CONNECTION
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.batch import AT_MOST_ONCE, MessageBatch
from sluicegate.messaging.message.headers import Headers
from sluicegate.messaging.network.interest import Change
from sluicegate.messaging.network.link import LinkOutput, LinkTargets
from sluicegate.messaging.queues.admission import QueueGate
from sluicegate.messaging.queues.pressure import Pressure
from sluicegate.messaging.routing.deliver_to_one import priorities_of
from sluicegate.messaging.routing.destinations import (
    PartitionTarget,
    QueueTarget,
    ShareGroup,
    Subscriber,
    Subscription,
)
from sluicegate.messaging.routing.local_interest import ExportRules
from sluicegate.messaging.routing.routes import TopicSpace
from sluicegate.messaging.selectors.selector import Selectors
from sluicegate.messaging.topics.syntax import Syntax, TopicFilter, parse_filter
from support.cores.lone_actors import turn

ENDLESS = 1 << 40


def mqtt(text: str) -> TopicFilter:
    return parse_filter(text, Syntax.MQTT)


class Receiver(LoopActor):
    """Keeps the batches that it is sent."""

    def __init__(self, cell: ActorCell, got: list[MessageBatch]) -> None:
        super().__init__(cell)
        self.got = got

    def on_receive(self, message: object) -> None:
        batch = message.batch if isinstance(message, (SharedDirect, Append)) else message
        if isinstance(batch, MessageBatch):
            self.got.append(batch)


@dataclass
class Sent:
    """What one broker sent another in one go."""

    source: str
    target: str
    batch: MessageBatch
    targets: LinkTargets


class Link(LinkOutput):
    """The link from one broker to another, seen from the first: it sends batches to the other, and its interest."""

    def __init__(self, source: "Broker", target: "Broker", log: list[Sent]) -> None:
        super().__init__(target.name)
        self.source, self.target, self.log = source, target, log

    def send(self, batch: MessageBatch, targets: LinkTargets) -> None:
        self.log.append(Sent(self.source.name, self.target.name, batch, targets))
        self.target.arrivals.deliver(batch, targets, self.source.name)

    def interest_changed(self, change: Change) -> None:
        self.target.space.change_neighbor(self.target.links[self.source.name], change)


@dataclass
class Broker:
    """The routing of one broker, and its clients."""

    runtime: Runtime
    name: str
    space: TopicSpace = field(default_factory=TopicSpace)
    links: dict[str, Link] = field(default_factory=dict)
    clients: dict[str, Subscriber] = field(default_factory=dict)
    groups: dict[tuple[str, str], ShareGroup] = field(default_factory=dict)
    got: dict[str, list[MessageBatch]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        spool, own = self._spawn("spool"), self._spawn("own")
        self.publisher = Publisher(space=self.space, spool=spool, address=own, rng=random.Random(1))
        self.arrivals = LinkPublisher(space=self.space, spool=spool, address=own, rng=random.Random(2), targets={})

    def _spawn(self, name: str) -> Address:
        got = self.got[name] = []
        cell = self.runtime.spawn(
            lambda cell: Receiver(cell, got), kind="test", name=f"{self.name}/{name}", policy=ONE_CONNECTION
        )
        return cell.inbox

    def client(self, name: str) -> Subscriber:
        """Return a client, which connects when it is first named."""
        known = self.clients.get(name)
        if known is None:
            known = self.clients[name] = Subscriber(name)
            known.address = self._spawn(name)
        return known

    def subscribe(self, name: str, text: str, *priorities: str, qos: int = 0, selector: str = "") -> None:
        """Subscribe a client; with a QoS above 0 its guaranteed messages come to `NAME's queue`."""
        client = self.client(name)
        if qos and client.queue is None:
            client.queue = self._target(f"{name}'s queue")
        chosen = Selectors({}).compile(selector) if selector else None
        self.space.subscribe(mqtt(text), name, Subscription(client, qos, chosen, priorities_of(list(priorities))))

    def unsubscribe(self, name: str, text: str) -> None:
        """End a client's subscription."""
        self.space.unsubscribe(mqtt(text), name)

    def queue(self, name: str, text: str, *, usage_bytes_max: int = ENDLESS) -> QueueTarget:
        """Have a queue subscribe to topics."""
        target = self._target(name, usage_bytes_max)
        self.space.subscribe(mqtt(text), target, target)
        return target

    def _target(self, name: str, usage_bytes_max: int = ENDLESS) -> QueueTarget:
        gate = QueueGate(None, usage_bytes_max=usage_bytes_max, message_bytes_max=ENDLESS)
        target = QueueTarget(name, gate, Pressure(high_bytes=ENDLESS, low_bytes=0), durable=False)
        target.partitions.append(PartitionTarget(1, self._spawn(name)))
        return target

    def join(self, name: str, group_name: str, text: str) -> None:
        """Have a client join a shared group."""
        group = self.groups.get((group_name, text))
        if group is None:
            group = self.groups[group_name, text] = ShareGroup(group_name, text)
            self.space.subscribe(mqtt(text), group, group)
        group.join(self.client(name))
        self.space.group_changed(group)

    def leave(self, name: str, group_name: str, text: str) -> None:
        """Have a client leave a shared group."""
        group = self.groups[group_name, text]
        group.leave(name)
        self.space.group_changed(group)
        if not group.members:
            self.space.unsubscribe(mqtt(text), self.groups.pop((group_name, text)))

    def away(self, name: str) -> None:
        """Have a client disconnect; its subscriptions stay."""
        self.clients[name].address = None
        self.space.presence_changed(self.clients[name])

    def back(self, name: str) -> None:
        """Have it connect again."""
        self.clients[name].address = self._spawn(name)
        self.space.presence_changed(self.clients[name])

    def payloads(self, name: str) -> list[bytes]:
        """Return what a client or queue got, in order."""
        return [payload for batch in self.got[name] for payload in batch.payloads()]


class Mesh:
    """Brokers A, B, C, all linked."""

    def __init__(self, runtime: Runtime, names: str = "ABC") -> None:
        self.runtime = runtime
        self.brokers = {name: Broker(runtime, name) for name in names}
        self.sent: list[Sent] = []
        for source in self.brokers.values():
            for target in self.brokers.values():
                if source is not target:
                    source.links[target.name] = Link(source, target, self.sent)
        for source in self.brokers.values():
            for link in source.links.values():
                source.space.exported().export_to(link, link.interest_changed, ExportRules())

    def __getitem__(self, name: str) -> Broker:
        return self.brokers[name]

    def publish(
        self, at: str, *rows: tuple[str, bytes, bool], qos: int = AT_MOST_ONCE, retain: bool = False
    ) -> PublishResult:
        """Publish one batch of rows (topic, payload, to one) at a broker; everybody gets their messages."""
        topics = [topic for topic, _, _ in rows]
        is_one_topic = len(set(topics)) == 1
        batch = MessageBatch(
            topic=topics[0] if is_one_topic else "",
            topics=None if is_one_topic else topics,
            payloads=[payload for _, payload, _ in rows],
            headers=[Headers(deliver_to_one=True) if to_one else None for _, _, to_one in rows],
            qos=qos,
            retain=retain,
            publisher="p",
            received_ms=0,
            payload_bytes=sum(len(payload) for _, payload, _ in rows),
        )
        result = self.brokers[at].publisher.publish(batch, 1)
        turn(self.runtime)
        return result

    def who_got(self, payload: bytes) -> list[str]:
        """Return the clients and queues that got a message, as BROKER/NAME, once for each copy."""
        return sorted(
            f"{broker.name}/{name}"
            for broker in self.brokers.values()
            for name, batches in broker.got.items()
            for batch in batches
            for each in batch.payloads()
            if each == payload
        )
