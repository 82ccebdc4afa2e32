"""The retained messages of one message VPN over one link.

What the neighbor sends is put in force when it wins over what is known of its topic, and acknowledged when the store
has it. The neighbor sends no more than a window of parts ahead of the acknowledgements.
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import Final, final

from sluicegate.actors.network.link_batches import body_once, link_batch
from sluicegate.actors.publishing.retain import RetainedChange, store_changes
from sluicegate.actors.runtime.events import Events
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.refusals import ADMITTED
from sluicegate.messaging.network.digests import BUCKETS
from sluicegate.messaging.network.retained.exchange import ENTRIES_MAX, RetainedEntry, RetainedReceiver, RetainedSender
from sluicegate.messaging.network.retained.versions import AHEAD_MS_MAX, COUNTER_MAX, Version
from sluicegate.messaging.network.times import arriving
from sluicegate.messaging.observability.events import SYSTEM_LINK_CLOCK
from sluicegate.messaging.routing.local_interest import ExportRules
from sluicegate.messaging.routing.retained_messages import RetainedMessage
from sluicegate.messaging.routing.routes import TopicSpace
from sluicegate.protocols.flow.codec.frames.link import LinkRetained
from sluicegate.protocols.flow.links import LinkWire
from sluicegate.protocols.network.retained import frames
from sluicegate.protocols.network.retained.frames import RetainedPart, retained_part

log = logging.getLogger("sluicegate.network")

PARTS_AHEAD_MAX: Final = 64  # lists and changes that the neighbor has not acknowledged
PARTS_PER_TURN: Final = 8  # then others have their turn
PART_BYTES: Final = 64 * 1024  # of messages in one part, if it has several
FLUSH_BYTES: Final = 1024 * 1024  # sent in one turn, or the part that exceeds it: other frames wait behind them
_NO_DIGESTS: Final = [0] * BUCKETS


@final
class _Arrived:
    """A part whose changes are being stored."""

    __slots__ = ("number", "runs_left")

    def __init__(self, number: int) -> None:
        self.number = number
        self.runs_left = 0


@final
class RetainedLink:
    """Retained messages between this broker and one neighbor, for as long as the link is configured."""

    def __init__(
        self,
        cell: ActorCell,
        neighbor: str,
        vpn_name: str,
        *,
        space: TopicSpace,
        spool: Address,
        rules: ExportRules,
        events: Events,
    ) -> None:
        self.sent_count = 0  # messages and deletions
        self.received_count = 0  # messages and deletions that are in force here, or were
        self.no_room_count = 0  # messages for which the message VPN has no room
        self.excluded_count = 0  # messages and deletions of topics that the export rules leave out
        self.too_large_count = 0  # messages that no frame of the neighbor takes, or not even their topics
        retained = space.retained
        self.receiver: Final = RetainedReceiver(retained.clock)
        self._cell = cell
        self._neighbor = neighbor
        self._vpn_name = vpn_name
        self._space = space
        self._spool = spool
        self._events = events
        self._allows: Callable[[str], bool] | None = rules.allows_topic if rules.has_topics else None
        self._stored = retained.link()
        self.sender: Final = RetainedSender(neighbor, self._stored, self._allows)
        self._stored.senders.append(self.sender)
        self.sender.on_change = self._ask_flush
        retained.tombstones.begin(neighbor)
        self._wire: LinkWire | None = None
        self._flow_id = 0
        self._frame_bytes_max = 0
        self._asks: Callable[[], None] = _nothing
        self._part_bytes = 0  # that fit in a frame which the neighbor takes
        self._wanted: list[str] = []  # to ask the neighbor for
        self._arrived: deque[_Arrived] = deque()  # in order
        self._acked_number = 0
        self._handled_number = 0
        self._has_warned = False

    def stop(self) -> None:
        """End for good."""
        self.disconnected()
        self._stored.senders.remove(self.sender)
        retained = self._space.retained
        retained.tombstones.end(self._neighbor)
        if not self._stored.senders:
            retained.unlink()

    @property
    def is_idle(self) -> bool:
        """Whether the neighbor was sent, and has stored, everything; and what it sent is stored here."""
        return self.sender.is_idle and not (self._arrived or self._wanted or self._space.retained.ahead)

    def rejected_counts(self) -> dict[str, int]:
        """Return the messages and deletions that are not in force at the other end, by the reason."""
        receiver = self.receiver
        return {
            "no_room": self.no_room_count,
            "excluded": self.excluded_count,
            "local_topic": receiver.local_count,
            "clock_ahead": receiver.ahead_count,
            "outdated": receiver.outdated_count,
            "too_large": self.too_large_count,
        }

    # --- the connection ---

    def connected(self, wire: LinkWire, flow_id: int, frame_bytes_max: int, asks: Callable[[], None]) -> None:
        """Begin on a new connection to a neighbor that knows this exchange. `asks` has `flush` called this turn."""
        self._wire, self._flow_id, self._frame_bytes_max = wire, flow_id, frame_bytes_max
        self._part_bytes = min(PART_BYTES, frame_bytes_max - 4 * frames.HEAD_BYTES)
        self._asks = asks
        self._acked_number = self._handled_number = 0
        self._arrived = deque()
        self._wanted = []
        self._has_warned = False
        self.sender.connected()
        wall_ms = self._cell.runtime.dispatcher.both_ms()[1]
        self._send(frames.digests_body(self.sender.digests_to_tell(), wall_ms))

    def disconnected(self) -> None:
        """The connection is gone."""
        self._wire = None
        self._asks = _nothing
        self._arrived = deque()
        self._wanted = []
        self.sender.disconnected()

    def flush(self) -> bool:
        """Send what there is, a few parts at a time; return whether there is more that may be sent now."""
        wire = self._wire
        if wire is None:
            return False
        if self._handled_number > self._acked_number:
            self._acked_number = self._handled_number
            self._send(frames.ack_body(self._handled_number))
        self._ask_for_wanted()
        if self._space.retained.ahead:
            self._stamp_again()
            return True
        size = 0
        for _ in range(PARTS_PER_TURN):
            if wire.is_full or self.sender.sent_number - self.sender.acknowledged_number >= PARTS_AHEAD_MAX:
                return False
            part_bytes = self._send_part()
            if not part_bytes:
                return False
            size += part_bytes
            if size >= FLUSH_BYTES:
                break
        return True

    def _ask_for_wanted(self) -> None:
        """Ask the neighbor for what is missing here."""
        topics: list[bytes] = []
        size = 0
        for topic in self._wanted:
            encoded = frames.sized_text(topic)
            if len(encoded) > self._part_bytes:
                self.too_large_count += 1
                continue
            if topics and (size + len(encoded) > self._part_bytes or len(topics) == ENTRIES_MAX):
                self._send(frames.wanted_body(topics))
                topics, size = [], 0
            topics.append(encoded)
            size += len(encoded)
        self._wanted = []
        if topics:
            self._send(frames.wanted_body(topics))

    def _ask_flush(self) -> None:
        self._asks()

    def _send(self, body: bytes) -> None:
        if self._wire is not None:
            self._wire.control(LinkRetained(self._flow_id, body).encode())

    def _send_part(self) -> int:
        """Send a list, or changes; return its bytes. 0: there is nothing."""
        return self._send_list() or self._send_changes()

    def _send_list(self) -> int:
        """Send a list of what the neighbor may lack; return its bytes. 0: there is nothing."""
        entries: list[RetainedEntry] = []
        listed: list[bytes] = []
        size = 0
        while len(entries) < ENTRIES_MAX and (entry := self.sender.next_listed()) is not None:
            encoded = frames.entry_bytes(entry)
            if len(encoded) > self._part_bytes:
                self.too_large_count += 1
            elif size + len(encoded) > self._part_bytes:
                break  # with the next list
            else:
                entries.append(entry)
                listed.append(encoded)
                size += len(encoded)
            self.sender.listed()
        if not entries:
            return 0
        body = frames.list_body(self.sender.sent(entries), listed)
        self._send(body)
        return len(body)

    def _send_changes(self) -> int:
        """Send messages and deletions; return the bytes. 0: there are none."""
        entries: list[RetainedEntry] = []
        changes: list[bytes] = []
        size = 0
        while size < PART_BYTES and len(entries) < ENTRIES_MAX and (entry := self.sender.next_changed()) is not None:
            message = self._message_of(entry)
            if message is None:
                self.sender.took(entry.topic)
                self.sender.owe(entry.topic)
                continue
            encoded = frames.change_bytes(entry, message)
            if len(encoded) + 4 * frames.HEAD_BYTES > self._frame_bytes_max:
                self.sender.took(entry.topic)
                self.too_large_count += 1
                continue
            if size and size + len(encoded) > PART_BYTES:
                break  # with the next part
            self.sender.took(entry.topic)
            entries.append(entry)
            changes.append(encoded)
            size += len(encoded)
        if not entries:
            return 0
        self.sent_count += len(entries)
        wall_ms = self._cell.runtime.dispatcher.both_ms()[1]
        body = frames.changes_body(self.sender.sent(entries), wall_ms, changes)
        self._send(body)
        return len(body)

    def _message_of(self, entry: RetainedEntry) -> bytes | None:
        """Return the message as it is at rest, nothing for a deletion. None: there is a later one, not stored yet."""
        if entry.is_deleted:
            return b""
        message = self._space.retained.get(entry.topic)
        if message is None or message.version != entry.version:
            return None
        return body_once(message.batch)

    # --- what the neighbor sends ---

    def received(self, body: bytes) -> None:
        """Handle the body of a LINK_RETAINED. Raises ValueError for one that is malformed."""
        part = retained_part(body)
        if part.kind == frames.CHANGES:
            self._changes(part)
        elif part.kind == frames.LIST:
            self._list(part)
        elif part.kind == frames.ACK:
            self.sender.acknowledged(part.number)
        elif part.kind == frames.WANTED:
            self.sender.wanted(list(part.topics))
        else:
            self._compare_clocks(part.sent_ms)
            self.sender.told(list(part.digests) or _NO_DIGESTS)
        self._asks()

    def _compare_clocks(self, sent_ms: int) -> None:
        """See whether this broker's clock was wrong once: it agrees with the neighbor's, and versions are far ahead.

        Neighbors reject these versions, and all that come after them. So what has them is stamped again. A clock that
        the neighbor's contradicts is left: it may be behind, and then later versions are right.

        What is written here from now on is later than all that the neighbor has: it may have told nothing of a deletion
        that this broker has no message for.
        """
        wall_ms = self._cell.runtime.dispatcher.both_ms()[1]
        retained = self._space.retained
        if abs(sent_ms - wall_ms) <= AHEAD_MS_MAX and retained.clock.is_ahead(wall_ms):
            retained.clock.goes_back(wall_ms)
            retained.ahead = retained.topics_after(wall_ms + AHEAD_MS_MAX)
            log.warning(
                "message VPN %s: %d retained messages and deletions have a time that is more than an hour ahead;"
                " they get the present one",
                self._vpn_name,
                len(retained.ahead),
            )
        if sent_ms <= wall_ms + AHEAD_MS_MAX:
            retained.clock.saw(Version(sent_ms, COUNTER_MAX, self._neighbor))

    def _stamp_again(self) -> None:
        """Give some of what is far ahead the version of a change that is made now."""
        retained = self._space.retained
        taken = retained.ahead[-ENTRIES_MAX:]
        del retained.ahead[-ENTRIES_MAX:]
        wall_ms = self._cell.runtime.dispatcher.both_ms()[1]
        changes: list[RetainedChange] = []
        for topic in taken:
            if retained.version_of(topic).wall_ms <= wall_ms + AHEAD_MS_MAX:
                continue  # it was changed meanwhile
            version = retained.clock.next(wall_ms)
            message = retained.get(topic)
            if message is None:
                retained.bury(topic, version)
            else:
                message = RetainedMessage(message.batch, version)
                retained.put(topic, message)
            changes.append(RetainedChange(topic, version, message))
        if changes:
            store_changes(changes, space=self._space, spool=self._spool)

    def _list(self, part: RetainedPart) -> None:
        """Ask for the messages that are missing here; put deletions in force."""
        changes: list[RetainedChange] = []
        for entry in part.entries:
            if self._allows is not None and not self._allows(entry.topic):
                continue
            if self._takes(entry, is_listed=True):
                if entry.is_deleted:
                    self._stored.relearned(entry.topic)
                    changes.append(self._bury(entry))
                else:
                    self._wanted.append(entry.topic)
            elif entry.is_deleted:
                changes += self._outdated_deletion(entry)
        self._store(part.number, changes)

    def _changes(self, part: RetainedPart) -> None:
        """Put messages and deletions in force."""
        wall_ms = self._cell.runtime.dispatcher.both_ms()[1]
        changes: list[RetainedChange] = []
        for entry, message in zip(part.entries, part.messages, strict=True):
            if self._allows is not None and not self._allows(entry.topic):
                self.excluded_count += 1
            elif self._takes(entry, is_listed=False):
                if entry.is_deleted:
                    changes.append(self._bury(entry))
                    continue
                change = self._put(entry, arriving(_message_in(message, entry.topic), part.sent_ms, wall_ms))
                if change is not None:
                    changes.append(change)
            elif entry.is_deleted:
                changes += self._outdated_deletion(entry)
        self._store(part.number, changes)

    def _takes(self, entry: RetainedEntry, *, is_listed: bool) -> bool:
        ahead_count = self.receiver.ahead_count
        wall_ms = self._cell.runtime.dispatcher.both_ms()[1]
        known = self._space.retained.version_of(entry.topic)
        if self.receiver.takes(entry, known, wall_ms, is_listed=is_listed):
            return True
        if self.receiver.ahead_count > ahead_count and not self._has_warned:
            self._has_warned = True
            minutes = (entry.version.wall_ms - wall_ms) // 60_000
            text = (
                f"message VPN {self._vpn_name}: retained messages of broker {entry.version.broker} are rejected, which"
                f" neighbor {self._neighbor} sends: their time is {minutes} minutes ahead of this broker's clock"
            )
            self._events.emit(SYSTEM_LINK_CLOCK, text)
        return False

    def _outdated_deletion(self, entry: RetainedEntry) -> list[RetainedChange]:
        """Return what to store of a deletion that something later has outdated here which is not stored yet.

        The store may have the message that was deleted, and the neighbor forgets the deletion when it is acknowledged.
        A crash would lose what is later, and bring the message back. So the deletion is stored before it.
        """
        retained, topic = self._space.retained, entry.topic
        known = retained.version_of(topic)
        if not known.is_after(entry.version) or not self._stored.is_unstored(topic):
            return []
        return [RetainedChange(topic, entry.version, None), RetainedChange(topic, known, retained.get(topic))]

    def _bury(self, entry: RetainedEntry) -> RetainedChange:
        self.received_count += 1
        self._space.retained.bury(entry.topic, entry.version, self._neighbor)
        return RetainedChange(entry.topic, entry.version, None)

    def _put(self, entry: RetainedEntry, batch: MessageBatch) -> RetainedChange | None:
        """Retain a message, or delete what it would replace where there is no room."""
        retained = self._space.retained
        verdict = retained.verdict([batch])
        if verdict == ADMITTED:
            self.received_count += 1
            message = RetainedMessage(batch, entry.version)
            retained.put(entry.topic, message)
            return RetainedChange(entry.topic, entry.version, message)
        retained.note_refusal(verdict, hears=False)
        self.no_room_count += 1
        if not retained.remove(entry.topic):
            return None
        return RetainedChange(entry.topic, None, None)

    def _store(self, number: int, changes: list[RetainedChange]) -> None:
        """Have changes stored, and the part acknowledged then."""
        if len(self._arrived) >= 2 * PARTS_AHEAD_MAX:
            raise ValueError(f"more than {2 * PARTS_AHEAD_MAX} parts of retained messages without an acknowledgement")
        arrived = _Arrived(number)
        self._arrived.append(arrived)
        if changes:

            def left(reason: str) -> None:
                if reason:
                    log.warning("retained messages of neighbor %s could not be stored: %s", self._neighbor, reason)
                arrived.runs_left -= 1
                self._acknowledge()

            arrived.runs_left = store_changes(changes, space=self._space, spool=self._spool, on_left=left)
        self._acknowledge()

    def _acknowledge(self) -> None:
        """Acknowledge the parts that are stored, with all before them."""
        before = self._handled_number
        while self._arrived and not self._arrived[0].runs_left:
            self._handled_number = self._arrived.popleft().number
        if self._handled_number > before:
            self._asks()


def _message_in(body: bytes, topic: str) -> MessageBatch:
    batch = link_batch(body)
    if batch.count != 1 or batch.topic_of(0) != topic or not batch.payloads()[0]:
        raise ValueError(f"LINK_RETAINED: {batch.count} messages of {batch.topic_of(0)!r:.80} for {topic!r:.80}")
    return batch


def _nothing() -> None:
    """There is no connection."""
