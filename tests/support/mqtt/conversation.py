"""One client that talks to an engine, for tests: virtual time, and a record of what both sides sent."""

from typing import TypeVar

import support.mqtt.packets as mqtt
from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.protocols.mqtt.codec.events import MqttEvent, PeerViolated, PublishReceived
from sluicegate.protocols.mqtt.codec.limits import MqttLimits
from sluicegate.protocols.mqtt.engine.engine import MqttEngine

WALL_MS = 1_700_000_000_000

EventT = TypeVar("EventT", bound=MqttEvent)


class Conversation:
    """An engine with a client before it. Times are in milliseconds and stand still unless a test moves them."""

    def __init__(self, level: int = 4, limits: MqttLimits | None = None) -> None:
        self.level = level
        self.now_ms = 0
        self.engine = MqttEngine(limits or MqttLimits(), self.now_ms)
        self.events: list[MqttEvent] = []

    def hears(self, *packets: bytes) -> list[MqttEvent]:
        """The client's bytes arrive in one read."""
        received = self.engine.feed(b"".join(packets), self.now_ms, WALL_MS)
        events = [] if received.first is None else [received.first, *received.further]
        self.events += events
        return events

    def reads(self, data: bytes, size: int) -> list[MqttEvent]:
        """The client's bytes arrive in reads of at most so many, by a transport that puts them where they belong."""
        events: list[MqttEvent] = []
        while data:
            room = self.engine.buffer()
            piece = data[: size if room is None else min(size, len(room))]
            data = data[len(piece) :]
            if room is None:
                events += self.hears(piece)
                continue
            room[: len(piece)] = piece
            if self.engine.filled(len(piece), self.now_ms):
                events += self.hears(b"")
        return events

    def waits(self, milliseconds: int) -> list[MqttEvent]:
        self.now_ms += milliseconds
        violated = self.engine.tick(self.now_ms)
        events: list[MqttEvent] = [] if violated is None else [violated]
        self.events += events
        return events

    def said(self) -> bytes:
        """What the engine has to write since the last look."""
        return b"".join(self.engine.take())

    def packets(self) -> list[mqtt.Packet]:
        return mqtt.packets_of(self.said())

    def violation(self) -> PeerViolated:
        """The violation that ended the conversation."""
        last = self.events[-1]
        assert isinstance(last, PeerViolated), self.events
        return last


def connected(
    level: int = 4,
    *,
    limits: MqttLimits | None = None,
    properties: bytes = b"",
    keep_alive_s: int = 0,
    clean_start: bool = True,
) -> Conversation:
    """A conversation behind its CONNECT and CONNACK."""
    conversation = Conversation(level, limits)
    conversation.hears(
        mqtt.connect("c1", level=level, properties=properties, keep_alive_s=keep_alive_s, clean_start=clean_start)
    )
    conversation.engine.accept(False)
    conversation.said()
    conversation.events.clear()
    return conversation


def only(kind: type[EventT], events: list[MqttEvent]) -> EventT:
    """The one event there is, which has to be of this kind."""
    assert len(events) == 1, events
    (event,) = events
    assert isinstance(event, kind), event
    return event


class Row:
    """One message of a batch, for comparing."""

    def __init__(self, batch: MessageBatch, row: int, packet_id: int) -> None:
        headers = batch.headers_of(row)
        self.fields = (batch.qos, batch.retain, batch.topic_of(row), batch.payloads()[row], packet_id, repr(headers))
        self.headers = headers

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Row) and self.fields == other.fields and self.headers == other.headers

    def __hash__(self) -> int:
        return hash(self.fields)

    def __repr__(self) -> str:
        return repr(self.fields)


def rows_of(event: PublishReceived) -> list[Row]:
    """The messages of one event with their packet ids, 0 at QoS 0."""
    ids = [packet_id for first, last in event.packet_ids for packet_id in range(first, last + 1)]
    batch = event.batch
    assert batch.count == len(batch.payloads())
    assert batch.payload_bytes == sum(len(payload) for payload in batch.payloads())
    assert len(ids) == (batch.count if batch.qos else 0)
    return [Row(batch, row, ids[row] if ids else 0) for row in range(batch.count)]


def all_rows(events: list[MqttEvent]) -> list[Row]:
    """The messages of all PublishReceived events."""
    return [row for event in events if isinstance(event, PublishReceived) for row in rows_of(event)]
