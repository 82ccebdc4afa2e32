"""The state of one MQTT session. It outlives connections and, if it has an expiry, restarts of the broker.

The connection owns it while there is one, else the session directory; never both. The directory has an entry for each
session in either case: the session itself, of which the directory's own fields stand at the end. Together they are one
object, because there may be a hundred thousand.

See also: `protocols.mqtt.session.stored` (reading it back from the store).
"""

from typing import Any, Final, final

import orjson
from mypy_extensions import i32

from sluicegate.actors.messages.directory import LocalQueue
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.actors.runtime.runtime import ActorCell, TimerHandle
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.publication import Publication
from sluicegate.messaging.message.ranges import RangeSet
from sluicegate.messaging.queues.moves import SESSION_QUEUE_PREFIX
from sluicegate.messaging.routing.destinations import Subscriber
from sluicegate.messaging.routing.retained_messages import RetainedMessage
from sluicegate.messaging.selectors.selector import Selector
from sluicegate.messaging.topics.retained import RetainedScan
from sluicegate.protocols.mqtt.codec.events import Will
from sluicegate.protocols.mqtt.session.packet_ids import SentIds
from sluicegate.protocols.mqtt.session.subscriptions import (
    NO_SUBSCRIPTIONS,
    DeliveryOptions,
    GrantedSubscription,
    SubscriptionTable,
)

NEVER_EXPIRES: Final = 0xFFFF_FFFF
STATE_ROW: Final = b"session/"
SUBSCRIPTION_ROW: Final = b"subscription/"  # one row each: a client with thousands adds one at a time
IDS_ROW: Final = b"qos2/"  # its first use; QoS 1 ids are there too while the client is away
RECEIVED_ROW: Final = b"received/"  # one for each id, so that it is written with its message and by itself deleted

# What sessions have in common that have none of these; replaced before anything is added.
_NOTHING: Final[dict[str, None]] = {}
_NO_EXTRAS: Final[dict[str, "ExtraSubscription"]] = {}


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
        self.queue_name = queue_name  # source of its guaranteed messages; empty: none requested
        self.selector = selector  # of a named queue's messages; None: all
        self.ids = SentIds()  # of a shared subscription
        self.suspended: SuspendedFlow | None = None  # while its client is away, if QoS 2 messages wait for it

    def options(self) -> DeliveryOptions:
        """Return what its messages are delivered as."""
        return DeliveryOptions(self.qos, self.retain_as_published, [self.identifier] if self.identifier else None)

    def is_as(self, other: "ExtraSubscription") -> bool:
        """Return whether it has the same options as another of this text."""
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
        self.suspended = known.suspended


@final
class SuspendedFlow:
    """A flow that waits for its client, see `messaging.partitions.suspended_flows`."""

    def __init__(self, flow_id: int, queue: Address) -> None:
        self.flow_id = flow_id
        self.queue = queue  # the queue's actor


@final
class RetainedSent:
    """A retained message with a packet id, at QoS 1 or 2 because of a subscription, and not answered for yet."""

    def __init__(self, packet_id: int, batch: MessageBatch, qos: int, identifier: int) -> None:
        self.packet_id = packet_id
        self.batch = batch
        self.qos = qos
        self.identifier = identifier
        self.was_sent = False  # one of QoS 2 waits until the store has its id, and its connection may end first


@final
class PendingRetained:
    """Retained messages that a subscription matches and that are still to be sent."""

    def __init__(self, scan: RetainedScan[RetainedMessage], granted: GrantedSubscription) -> None:
        self.scan = scan
        self.granted = granted
        self._found: list[tuple[str, RetainedMessage]] = []
        self._place = 0

    def has_next(self, count_max: int, scan_max: int) -> bool:
        """Return whether a message is at hand, after looking for some more if there was none."""
        if self._place >= len(self._found):
            self._found = self.scan.take(count_max, scan_max)
            self._place = 0
        return len(self._found) > 0

    def next(self) -> MessageBatch:
        """Return the message at hand."""
        return self._found[self._place][1].batch

    def passed(self) -> None:
        """Have done with the message at hand."""
        self._place += 1


@final
class SessionParts:
    """What most sessions that only stay never have, each made on first use; see the properties of `Session`."""

    def __init__(self) -> None:
        self.shares = _NO_EXTRAS
        self.queues = _NO_EXTRAS
        self.unstored = _NOTHING
        self.stored_row = b""
        self.received_bytes = 0
        self.ids: SentIds | None = None
        self.released: RangeSet | None = None
        self.not_sent_again: RangeSet | None = None
        self.received: RangeSet | None = None
        self.undecided: dict[int, Publication | None] | None = None
        self.retained_sent: dict[int, RetainedSent] | None = None
        self.pending_retained: dict[str, PendingRetained] | None = None

    def has_deliveries(self) -> bool:
        """Return whether messages are to be sent, or sent again."""
        return bool(
            self.shares
            or self.queues
            or (self.ids is not None and self.ids.remembered)
            or self.released
            or self.retained_sent
            or self.pending_retained
        )

    def has_sent_nothing(self) -> bool:
        """Return whether nothing with a packet id was sent from its queue."""
        return self.ids is None and self.released is None and self.not_sent_again is None


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
        self.user = ""  # owner: no other user may claim it; empty: any user may
        self.subscriber: Subscriber | None = None  # from its first subscription on: see `protocols.mqtt.client`
        self.table = NO_SUBSCRIPTIONS  # `grant` adds one
        self.queue: LocalQueue | None = None  # of its guaranteed messages; None until it subscribes for some
        self._parts: SessionParts | None = None
        # What is smaller than a pointer stands together.
        self.was_stored = False  # the store has rows of it
        self.ids_were_stored = False  # and one with packet ids
        # The rest is the directory's, whoever owns the session.
        self.counts_as_kept = False  # in `protocols.mqtt.session.quota`, as the next
        self.usage_bytes: i32 = 0
        self.connection: ActorCell | None = None
        self.away: Absence | None = None  # from the end of a connection until the client is back

    @property
    def shares(self) -> dict[str, ExtraSubscription]:
        """Subscriptions to shared groups, by the whole `$share/...` text; `add_share` adds one."""
        return _NO_EXTRAS if self._parts is None else self._parts.shares

    @property
    def queues(self) -> dict[str, ExtraSubscription]:
        """Subscriptions to named queues, by the whole `$queue/...` text; `add_queue` adds one."""
        return _NO_EXTRAS if self._parts is None else self._parts.queues

    @property
    def unstored(self) -> dict[str, None]:
        """The texts of subscriptions that the store does not have as they are."""
        return _NOTHING if self._parts is None else self._parts.unstored

    @property
    def stored_row(self) -> bytes:
        """The state row that the store has for certain, until a client comes; empty: that is not known."""
        return b"" if self._parts is None else self._parts.stored_row

    def set_stored_row(self, row: bytes) -> None:
        """Note which state row the store has for certain; empty: that is not known."""
        if len(row) > 0 or self._parts is not None:
            self._made_parts().stored_row = row

    @property
    def received_bytes(self) -> int:
        """What `received` counts for, see `protocols.mqtt.session.quota`."""
        return 0 if self._parts is None else self._parts.received_bytes

    def count_received(self, size: int) -> None:
        """Note what `received` counts for."""
        if size > 0 or self._parts is not None:
            self._made_parts().received_bytes = size

    @property
    def ids(self) -> SentIds:
        """The packet ids of its queue's messages."""
        parts = self._made_parts()
        ids = parts.ids
        if ids is None:
            ids = parts.ids = SentIds()
        return ids

    @property
    def released(self) -> RangeSet:
        """See the class."""
        parts = self._made_parts()
        released = parts.released
        if released is None:
            released = parts.released = RangeSet()
        return released

    @property
    def not_sent_again(self) -> RangeSet:
        """Ids of QoS 2 messages in flight that would not be sent again after a restart."""
        parts = self._made_parts()
        ids = parts.not_sent_again
        if ids is None:
            ids = parts.not_sent_again = RangeSet()
        return ids

    @property
    def received(self) -> RangeSet:
        """See the class."""
        parts = self._made_parts()
        received = parts.received
        if received is None:
            received = parts.received = RangeSet()
        return received

    @property
    def received_count(self) -> int:
        """How many ids are in `received`."""
        parts = self._parts
        return 0 if parts is None or parts.received is None else int(parts.received.total)

    @property
    def undecided(self) -> dict[int, Publication | None]:
        """Received ids whose publish was pending when a connection ended; None: only its retained message was."""
        parts = self._made_parts()
        undecided = parts.undecided
        if undecided is None:
            undecided = parts.undecided = {}
        return undecided

    @property
    def retained_sent(self) -> dict[int, RetainedSent]:
        """Retained messages sent and not acknowledged, by a number of our own, in the order sent."""
        parts = self._made_parts()
        sent = parts.retained_sent
        if sent is None:
            sent = parts.retained_sent = {}
        return sent

    @property
    def pending_retained(self) -> dict[str, PendingRetained]:
        """Retained messages still to be sent, by filter, in the order subscribed."""
        parts = self._made_parts()
        wanted = parts.pending_retained
        if wanted is None:
            wanted = parts.pending_retained = {}
        return wanted

    def _made_parts(self) -> SessionParts:
        parts = self._parts
        if parts is None:
            parts = self._parts = SessionParts()
        return parts

    @property
    def has_deliveries(self) -> bool:
        """Whether anything but direct messages comes for it, or it remembers packet ids of what has come."""
        return self.queue is not None or (self._parts is not None and self._parts.has_deliveries())

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
        return SESSION_QUEUE_PREFIX + self.client_id

    def _maybe_sent_below(self) -> int:
        parts = self._parts
        return 0 if parts is None or parts.ids is None else parts.ids.maybe_sent_below

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
        """Return the row key that records the receipt of a QoS 2 publish. No client id has a zero byte."""
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
                "maybe_sent_below": self._maybe_sent_below(),
            }
        )

    def grant(self, text: str, granted: GrantedSubscription) -> None:
        """Add or replace a subscription to topics."""
        if self.table is NO_SUBSCRIPTIONS:
            self.table = SubscriptionTable()
        self.table.grant(text, granted)

    def add_share(self, extra: ExtraSubscription) -> None:
        """Add or replace the subscription to a shared group."""
        parts = self._made_parts()
        if parts.shares is _NO_EXTRAS:
            parts.shares = {}
        parts.shares[extra.filter_text] = extra

    def add_queue(self, extra: ExtraSubscription) -> None:
        """Add or replace the subscription to a named queue."""
        parts = self._made_parts()
        if parts.queues is _NO_EXTRAS:
            parts.queues = {}
        parts.queues[extra.filter_text] = extra

    def changed(self, text: str) -> None:
        """Note that a subscription is new, another or gone, and has to be stored, if the session is."""
        if self.has_rows:
            parts = self._made_parts()
            if parts.unstored is _NOTHING:
                parts.unstored = {}
            parts.unstored[text] = None

    def all_stored(self) -> None:
        """Note that the store has all subscriptions as they are."""
        if self._parts is not None:
            self._parts.unstored = _NOTHING

    def unstored_rows(self) -> list[tuple[bytes, bytes | None]]:
        """Return the rows of the subscriptions that the store does not have as they are."""
        return [(self.subscription_key(text), self._subscription_row(text)) for text in self.unstored]

    def subscription_rows(self) -> dict[str, bytes]:
        """Return the stored form of each subscription, by its text."""
        rows = {text: self._subscription_row(text) for text in (*self.table.by_filter, *self.shares, *self.queues)}
        return {text: row for text, row in rows.items() if row is not None}

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

    def rows_deleted(self) -> list[tuple[bytes, bytes | None]]:
        """Return what deletes all rows that the store has of it."""
        rows: list[tuple[bytes, bytes | None]] = [
            (self.state_key(), None),
            (self.ids_key(), None),
            *[(key, None) for key in self.subscription_keys()],
        ]
        for first, end in self.received.ranges():
            rows += [(self.received_key(packet_id), None) for packet_id in range(first, end)]
        return rows

    def ids_row(self) -> bytes | None:
        """Return the packet ids that a restart must not forget; None when there are none, and the store has none."""
        is_empty = (self._parts is None or self._parts.has_sent_nothing()) and not self.shares
        if is_empty and not self.ids_were_stored:
            return None
        sent = self.ids.sent_to_store()
        shared = [
            [text, each.ids.partition_id, each.ids.sent_to_store(), each.ids.received_to_store()]
            for text, each in self.shares.items()
            if each.ids.remembered or each.ids.exactly_once or each.ids.received
        ]
        # A restart sends PUBREL for ids not sent again: the client may have them, and would ignore a new message.
        released = [*self.released.ranges(), *self.not_sent_again.ranges()]
        if not (sent or shared or released or self.ids_were_stored):
            return None
        self.ids_were_stored = True
        taken = [self.ids.partition_id, self.ids.received_to_store()]
        return orjson.dumps({"released": released, "sent": sent, "taken": taken, "shared": shared})

    # --- for the directory ---

    def absence(self) -> "Absence":
        """Return the state of the disconnected client, made on first use."""
        away = self.away
        if away is None:
            away = self.away = Absence()
        return away

    def stop_timers(self) -> None:
        """Cancel the timers of the disconnected client."""
        if self.away is not None:
            self.away.stop_timers()

    def write_no_more(self) -> None:
        """Drop pending writes: the session's next owner writes or deletes its rows, and no older write may follow."""
        if self.away is not None:
            self.away.write_no_more()


def ids_key(client_id: str) -> bytes:
    """Return the key of a session's row of packet ids, within its message VPN."""
    return IDS_ROW + client_id.encode()


@final
class Absence:
    """What the directory has of a client while it is disconnected."""

    def __init__(self) -> None:
        self.closed_wall_ms = 0  # end of the last connection, or start of the broker; expiry counts from it
        self.will: Will | None = None  # delayed
        self.will_timer: TimerHandle | None = None
        self.will_published: Publication | None = None  # not stored yet; what brings its state to the store
        self.expiry_timer: TimerHandle | None = None
        self.store_timer: TimerHandle | None = None
        self.released: LoopFuture[None] | None = None  # resolved when the connection has returned the session

    def stop_timers(self) -> None:
        """Cancel them all."""
        for timer in (self.will_timer, self.expiry_timer, self.store_timer):
            if timer is not None:
                timer.cancel()
        self.will_timer = self.expiry_timer = self.store_timer = None

    def write_no_more(self) -> None:
        """See `Session.write_no_more`."""
        if self.will_published is not None:
            self.will_published.session_rows = None
            self.will_published = None
