"""The state of one MQTT session, which outlives connections and, when it has an expiry, restarts of the broker.

It lies with the connection while there is one and with the session directory otherwise; never with both.
"""

from collections.abc import Iterable
from typing import Any, Final, final

import orjson

from actors.directory_messages import QueueHandle
from messaging.batch import MessageBatch
from messaging.publication import Publication
from messaging.ranges import RangeSet
from messaging.routing import Subscriber
from messaging.topics import Syntax, parse_filter
from protocols.mqtt.granted import GrantedSubscription, SubscriptionTable

NEVER_EXPIRES: Final = 0xFFFF_FFFF
STATE_ROW: Final = b"session/"
QOS2_ROW: Final = b"qos2/"
RECEIVED_ROW: Final = b"received/"  # one for each id, so that it is written with its message and by itself deleted


@final
class ExtraSubscription:
    """A subscription to a shared group or to a named queue: its messages come by a flow of their own."""

    def __init__(
        self, filter_text: str, qos: int, identifier: int, retain_as_published: bool, queue_name: str = ""
    ) -> None:
        self.filter_text = filter_text
        self.qos = qos
        self.identifier = identifier
        self.retain_as_published = retain_as_published
        self.queue_name = queue_name  # where its guaranteed messages come from; empty: it asked for none


@final
class RetainedSent:
    """A retained message sent at QoS 1 or 2 because of a subscription, and not answered for yet."""

    def __init__(self, packet_id: int, batch: MessageBatch, qos: int, identifier: int) -> None:
        self.packet_id = packet_id
        self.batch = batch
        self.qos = qos
        self.identifier = identifier


@final
class Session:
    """One client's session.

    `remembered` maps sequences of the session's queue to the packet ids under which they were sent and not answered, so
    that they are sent again under the same id [4.4.0-1]. `released` are ids between PUBREC and PUBCOMP, `received`
    those of the client's own QoS 2 publishes between PUBREC and PUBREL.
    """

    def __init__(self, client_id: str, *, expiry_s: int) -> None:
        self.client_id = client_id
        self.expiry_s = expiry_s
        self.subscriber = Subscriber(client_id)
        self.table = SubscriptionTable()
        self.shares: dict[str, ExtraSubscription] = {}  # by the whole `$share/...` text
        self.queues: dict[str, ExtraSubscription] = {}  # by the whole `$queue/...` text
        self.queue: QueueHandle | None = None  # of its guaranteed messages; None until it subscribes for some
        self.remembered: dict[int, int] = {}
        self.released = RangeSet()
        self.received = RangeSet()
        self.undecided: dict[int, Publication] = {}  # received ids whose publish was under way as a connection ended
        self.was_stored = False  # the store has rows of it
        self.retained_sent: dict[int, RetainedSent] = {}  # by a number of our own, in the order sent

    @property
    def is_durable(self) -> bool:
        """Whether the session outlives its connection, and so has to be stored."""
        return self.expiry_s > 0

    def queue_name(self) -> str:
        """Return the name of the session's queue."""
        return f"#mqtt/{self.client_id}"

    def state_row(self, *, will: dict[str, Any] | None, closed_wall_ms: int) -> bytes:
        """Return the form that is stored. `closed_wall_ms` is 0 while the client is connected."""
        self.was_stored = True
        subscriptions = [
            [text, each.qos, each.no_local, each.retain_as_published, each.retain_handling, each.identifier]
            for text, each in self.table.by_filter.items()
        ]
        extras = [
            [each.filter_text, each.qos, each.identifier, each.retain_as_published, each.queue_name]
            for each in [*self.shares.values(), *self.queues.values()]
        ]
        return orjson.dumps(
            {
                "expiry_s": self.expiry_s,
                "closed_wall_ms": closed_wall_ms,
                "subscriptions": subscriptions,
                "extras": extras,
                "will": will,
            }
        )

    def qos2_row(self, sent: dict[int, int]) -> bytes:
        """Return the packet ids that a restart must not forget. `sent` maps sequences to ids of QoS 2 messages sent."""
        return orjson.dumps(
            {
                "released": self.released.ranges(),
                "sent": [*self.remembered.items(), *sent.items()],
            }
        )


@final
class StoredSession:
    """What the store held of a session."""

    def __init__(self, client_id: str, state: bytes, qos2: bytes | None, received: list[int]) -> None:
        row = orjson.loads(state)
        self.session = Session(client_id, expiry_s=row["expiry_s"])
        self.session.was_stored = True
        self.closed_wall_ms: int = row["closed_wall_ms"]
        self.will: dict[str, Any] | None = row["will"]
        self.extras: list[ExtraSubscription] = [ExtraSubscription(*extra) for extra in row["extras"]]
        for text, qos, no_local, retain_as_published, retain_handling, identifier in row["subscriptions"]:
            topic_filter = parse_filter(text, Syntax.MQTT)
            self.session.table.grant(
                text,
                GrantedSubscription(topic_filter, qos, no_local, retain_as_published, retain_handling, identifier),
            )
        if qos2 is not None:
            ids = orjson.loads(qos2)
            for first, end in ids["released"]:
                self.session.released.add(first, end)
            for sequence, packet_id in ids["sent"]:
                self.session.remembered[sequence] = packet_id

        for packet_id in received:
            self.session.received.add(packet_id, packet_id + 1)


def state_key(client_id: str) -> bytes:
    """Return the key of a session's row."""
    return STATE_ROW + client_id.encode()


def qos2_key(client_id: str) -> bytes:
    """Return the key of a session's QoS 2 row."""
    return QOS2_ROW + client_id.encode()


def received_key(client_id: str, packet_id: int) -> bytes:
    """Return the key of the row that says that a QoS 2 publish was received. No client id has a zero byte."""
    return b"%s%s\x00%s" % (RECEIVED_ROW, client_id.encode(), packet_id.to_bytes(2, "big"))


def received_by_client(rows: Iterable[bytes]) -> dict[str, list[int]]:
    """Return which ids each client's publishes were received under."""
    received: dict[str, list[int]] = {}
    for key in rows:
        if key.startswith(RECEIVED_ROW):
            client_id = key[len(RECEIVED_ROW) : -3].decode()
            received.setdefault(client_id, []).append(int.from_bytes(key[-2:], "big"))
    return received
