"""The state of one MQTT session, which outlives connections and, when it has an expiry, restarts of the broker.

It lies with the connection while there is one and with the session directory otherwise; never with both.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, final

import orjson

from actors.directory_messages import QueueHandle
from messaging.address import Address
from messaging.batch import MessageBatch
from messaging.publication import Publication
from messaging.ranges import RangeSet
from messaging.retained import RetainedScan
from messaging.routing import RetainedMessage, Subscriber
from messaging.selectors import Selector, Selectors
from messaging.topics import Syntax, parse_filter
from protocols.mqtt.granted import DeliveryOptions, GrantedSubscription, SubscriptionTable
from protocols.mqtt.sent_ids import NOT_BOUND, SentIds

NEVER_EXPIRES: Final = 0xFFFF_FFFF
STATE_ROW: Final = b"session/"
SUBSCRIPTION_ROW: Final = b"subscription/"  # one for each: a client may have thousands, and asks for one more
IDS_ROW: Final = b"qos2/"  # its first use; QoS 1 ids are there too while the client is away
RECEIVED_ROW: Final = b"received/"  # one for each id, so that it is written with its message and by itself deleted
_ROWS_BESIDE: Final = (SUBSCRIPTION_ROW, IDS_ROW, RECEIVED_ROW)  # beside the one that says that there is a session

_NOTHING: Final[dict[str, None]] = {}  # of all sessions with nothing to store; replaced before anything is added


@final
class ExtraSubscription:
    """A subscription to a shared group or to a named queue: its messages come by a flow of their own."""

    def __init__(
        self,
        filter_text: str,
        qos: int,
        identifier: int,
        retain_as_published: bool,
        queue_name: str = "",
        selector: Selector | None = None,
    ) -> None:
        self.filter_text = filter_text
        self.qos = qos
        self.identifier = identifier
        self.retain_as_published = retain_as_published
        self.queue_name = queue_name  # where its guaranteed messages come from; empty: it asked for none
        self.selector = selector  # of a named queue's messages; None: all
        self.ids = SentIds()  # of a shared subscription
        self.parked: ParkedFlow | None = None  # while its client is away, if QoS 2 messages wait for it

    def options(self) -> DeliveryOptions:
        """Return what its messages are delivered as."""
        return DeliveryOptions(self.qos, self.retain_as_published, [self.identifier] if self.identifier else None)

    def is_as(self, other: "ExtraSubscription") -> bool:
        """Return whether it asks for the same as another of this text."""
        return (
            self.qos == other.qos
            and self.identifier == other.identifier
            and self.retain_as_published == other.retain_as_published
            and self.queue_name == other.queue_name
            and self.selector == other.selector
        )

    def row(self) -> bytes:
        """Return the form that is stored."""
        selector = None if self.selector is None else self.selector.text
        options = [self.qos, self.identifier, self.retain_as_published, self.queue_name, selector]
        return orjson.dumps({"extra": [self.filter_text, *options]})

    def continues(self, known: "ExtraSubscription") -> None:
        """Take the place of the same subscription with other options."""
        self.ids = known.ids
        self.parked = known.parked


@final
class ParkedFlow:
    """A flow that waits for its client, see `messaging.parking`."""

    def __init__(self, flow_id: int, queue: Address) -> None:
        self.flow_id = flow_id
        self.queue = queue  # the queue's actor


@final
class RetainedSent:
    """A retained message sent at QoS 1 or 2 because of a subscription, and not answered for yet."""

    def __init__(self, packet_id: int, batch: MessageBatch, qos: int, identifier: int) -> None:
        self.packet_id = packet_id
        self.batch = batch
        self.qos = qos
        self.identifier = identifier


@final
class RetainedWanted:
    """What a subscription has brought of the retained messages and is still to be sent."""

    def __init__(self, scan: RetainedScan[RetainedMessage], granted: GrantedSubscription) -> None:
        self.scan = scan
        self.granted = granted
        self._found: list[tuple[str, RetainedMessage]] = []
        self._place = 0

    def has_next(self, count_max: int, looked_max: int) -> bool:
        """Return whether a message is at hand, after looking for some more if there was none."""
        if self._place >= len(self._found):
            self._found = self.scan.take(count_max, looked_max)
            self._place = 0
        return len(self._found) > 0

    def next(self) -> MessageBatch:
        """Return the message at hand."""
        return self._found[self._place][1].batch

    def passed(self) -> None:
        """Have done with the message at hand."""
        self._place += 1


@final
class Session:
    """One client's session.

    `released` are packet ids between PUBREC and PUBCOMP, `received` those of the client's own QoS 2 publishes between
    PUBREC and PUBREL.
    """

    def __init__(self, client_id: str, *, expiry_s: int, row_prefix: bytes = b"") -> None:
        self.client_id = client_id
        self._row_prefix = row_prefix  # before the keys of its rows: whose message VPN it is in
        self.expiry_s = expiry_s
        self.user = ""  # whose it is: nobody else may have it; empty: anybody's
        self.subscriber = Subscriber(client_id)
        self.table = SubscriptionTable()
        self.shares: dict[str, ExtraSubscription] = {}  # by the whole `$share/...` text
        self.queues: dict[str, ExtraSubscription] = {}  # by the whole `$queue/...` text
        self.queue: QueueHandle | None = None  # of its guaranteed messages; None until it subscribes for some
        self.ids = SentIds()  # of its queue
        self.released = RangeSet()
        self.not_sent_again = RangeSet()  # ids of QoS 2 messages under way that after a restart nobody would send again
        self.received = RangeSet()
        self.undecided: dict[int, Publication] = {}  # received ids whose publish was under way as a connection ended
        self.was_stored = False  # the store has rows of it
        self.unstored: dict[str, None] = _NOTHING  # texts of subscriptions that the store does not have as they are
        self.stored_row = b""  # the state row that it has for certain; empty: that is not known
        self.ids_were_stored = False  # and one with packet ids
        self.retained_sent: dict[int, RetainedSent] = {}  # by a number of our own, in the order sent
        self.retained_wanted: dict[str, RetainedWanted] = {}  # by filter, in the order subscribed

    @property
    def is_durable(self) -> bool:
        """Whether the session outlives its connection, and so has to be stored."""
        return self.expiry_s > 0

    @property
    def has_rows(self) -> bool:
        """Whether the store has to know how it is: a session that now ends with its connection may have been kept."""
        return self.is_durable or self.was_stored

    def queue_name(self) -> str:
        """Return the name of the session's queue."""
        return f"#mqtt/{self.client_id}"

    def state_key(self) -> bytes:
        """Return the key of its row."""
        return self._row_prefix + STATE_ROW + self.client_id.encode()

    def subscription_key(self, text: str) -> bytes:
        """Return the key of the row of a subscription. No client id has a zero byte."""
        return b"%s%s%s\x00%s" % (self._row_prefix, SUBSCRIPTION_ROW, self.client_id.encode(), text.encode())

    def ids_key(self) -> bytes:
        """Return the key of its row of packet ids."""
        return self._row_prefix + ids_key(self.client_id)

    def received_key(self, packet_id: int) -> bytes:
        """Return the key of the row that says that a QoS 2 publish was received. No client id has a zero byte."""
        number = packet_id.to_bytes(2, "big")
        return b"%s%s%s\x00%s" % (self._row_prefix, RECEIVED_ROW, self.client_id.encode(), number)

    def state_row(self, *, will: dict[str, Any] | None, closed_wall_ms: int) -> bytes:
        """Return the form that is stored. `closed_wall_ms` is 0 while the client is connected."""
        self.was_stored = True
        return orjson.dumps(
            {
                "expiry_s": self.expiry_s,
                "user": self.user,
                "closed_wall_ms": closed_wall_ms,
                "will": will,
                "maybe_sent_below": self.ids.maybe_sent_below,
            }
        )

    def changed(self, text: str) -> None:
        """Note that a subscription is new, another or gone, and has to be stored, if the session is."""
        if self.has_rows:
            if self.unstored is _NOTHING:
                self.unstored = {}
            self.unstored[text] = None

    def all_stored(self) -> None:
        """Note that the store has all subscriptions as they are."""
        self.unstored = _NOTHING

    def unstored_rows(self) -> list[tuple[bytes, bytes | None]]:
        """Return the rows of the subscriptions that the store does not have as they are."""
        return [(self.subscription_key(text), self._subscription_row(text)) for text in self.unstored]

    def subscription_keys(self) -> list[bytes]:
        """Return the keys of all rows of subscriptions that the store may have."""
        texts = {**self.table.by_filter, **self.shares, **self.queues, **self.unstored}
        return [self.subscription_key(text) for text in texts]

    def _subscription_row(self, text: str) -> bytes | None:
        """Return the form in which a subscription is stored; None when there is none any more."""
        granted = self.table.by_filter.get(text)
        if granted is not None:
            options = (granted.no_local, granted.retain_as_published, granted.retain_handling, granted.identifier)
            selector = None if granted.selector is None else granted.selector.text
            return orjson.dumps({"subscription": [text, granted.qos, *options, selector, granted.priorities]})
        extra = self.shares.get(text) or self.queues.get(text)
        return None if extra is None else extra.row()

    def ids_row(self) -> bytes | None:
        """Return the packet ids that a restart must not forget; None when there are none, and the store has none."""
        sent = self.ids.pairs()
        shared = [
            [text, each.ids.partition_id, each.ids.pairs(), each.ids.taken_to_store()]
            for text, each in self.shares.items()
            if each.ids.pairs() or each.ids.taken
        ]
        # A restart says PUBREL for what nobody sends again: the client may have it, and would pass over another one.
        released = [*self.released.ranges(), *self.not_sent_again.ranges()]
        if not (sent or shared or released or self.ids_were_stored):
            return None
        self.ids_were_stored = True
        taken = [self.ids.partition_id, self.ids.taken_to_store()]
        once = self.ids.ids_once()
        return orjson.dumps({"released": released, "sent": sent, "once": once, "taken": taken, "shared": shared})


@final
class StoredSession:
    """What the store held of a session."""

    def __init__(
        self,
        client_id: str,
        state: bytes,
        ids: bytes | None,
        received: list[int],
        subscriptions: list[bytes],
        selectors: Selectors,
        *,
        row_prefix: bytes,
    ) -> None:
        row = orjson.loads(state)
        self._selectors = selectors
        self.session = Session(client_id, expiry_s=row["expiry_s"], row_prefix=row_prefix)
        self.session.user = row.get("user", "")  # earlier releases wrote none
        self.session.was_stored = True
        self.session.stored_row = state
        self.closed_wall_ms: int = row["closed_wall_ms"]
        self.will: dict[str, Any] | None = row["will"]
        self.extras: list[ExtraSubscription] = []
        for each in row.get("subscriptions", ()):  # earlier releases wrote all subscriptions into this row
            self._take_subscription(*each)
            self.session.changed(each[0])
        for each in row.get("extras", ()):
            self._take_extra(*each)
            self.session.changed(each[0])
        for stored in subscriptions:
            found = orjson.loads(stored)
            if "extra" in found:
                self._take_extra(*found["extra"])
            else:
                self._take_subscription(*found["subscription"])
        self.session.ids.maybe_sent_below = row.get("maybe_sent_below", 0)
        if ids is not None:
            self._take_ids(orjson.loads(ids))
        for packet_id in received:
            self.session.received.add(packet_id, packet_id + 1)

    def _take_subscription(
        self,
        text: str,
        qos: int,
        no_local: bool,
        retain_as_published: bool,
        retain_handling: int,
        identifier: int,
        selector: str | None = None,
        priorities: Iterable[int] = (),
    ) -> None:
        """Take a subscription as it was stored; earlier releases wrote neither a selector nor priorities."""
        granted = GrantedSubscription(
            parse_filter(text, Syntax.MQTT),
            qos,
            no_local,
            retain_as_published,
            retain_handling,
            identifier,
            self._selector(selector),
            tuple(priorities),
        )
        self.session.table.grant(text, granted)

    def _take_extra(
        self,
        text: str,
        qos: int,
        identifier: int,
        retain_as_published: bool,
        queue_name: str,
        selector: str | None = None,
    ) -> None:
        found = self._selector(selector)
        self.extras.append(ExtraSubscription(text, qos, identifier, retain_as_published, queue_name, found))

    def _selector(self, text: str | None) -> Selector | None:
        return None if text is None else self._selectors.compile_accepted(text)

    def _take_ids(self, row: dict[str, Any]) -> None:
        session = self.session
        session.ids_were_stored = True
        for first, end in row["released"]:
            session.released.add(first, end)
        once = set(row.get("once", ()))  # earlier releases did not write which are of QoS 2
        for sequence, packet_id in row["sent"]:
            session.ids.remember(sequence, packet_id, exactly_once=packet_id in once)
        session.ids.partition_id, taken = row.get("taken", (NOT_BOUND, ()))  # earlier releases wrote none
        for first, end in taken:
            session.ids.taken.add(first, end)
        by_text = {extra.filter_text: extra for extra in self.extras}
        for text, partition_id, sent, *more in row.get("shared", []):
            extra = by_text.get(text)
            if extra is None:  # it was ended, and the store heard of that first
                for _, packet_id in sent:
                    session.released.add(packet_id, packet_id + 1)
                continue
            extra.ids.partition_id = partition_id
            for sequence, packet_id in sent:
                extra.ids.remember(sequence, packet_id, exactly_once=True)
            for first, end in more[0] if more else ():
                extra.ids.taken.add(first, end)


def ids_key(client_id: str) -> bytes:
    """Return the key of a session's row of packet ids, within its message VPN."""
    return IDS_ROW + client_id.encode()


def received_by_client(rows: Iterable[bytes]) -> dict[str, list[int]]:
    """Return which ids each client's publishes were received under."""
    received: dict[str, list[int]] = {}
    for key in rows:
        if key.startswith(RECEIVED_ROW):
            client_id = key[len(RECEIVED_ROW) : -3].decode()
            received.setdefault(client_id, []).append(int.from_bytes(key[-2:], "big"))
    return received


def subscriptions_by_client(rows: dict[bytes, bytes]) -> dict[str, list[bytes]]:
    """Return the rows of each client's subscriptions."""
    found: dict[str, list[bytes]] = {}
    for key, row in rows.items():
        if key.startswith(SUBSCRIPTION_ROW):
            client_id, _, _ = key[len(SUBSCRIPTION_ROW) :].partition(b"\x00")
            found.setdefault(client_id.decode(), []).append(row)
    return found


def rows_left_behind(rows: Mapping[bytes, bytes]) -> list[bytes]:
    """Return the keys of the rows of sessions whose state row is not there: it could not be read."""
    return [
        key
        for key in rows
        for kind in _ROWS_BESIDE
        if key.startswith(kind) and STATE_ROW + key[len(kind) :].partition(b"\x00")[0] not in rows
    ]
