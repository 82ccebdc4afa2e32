"""The referee of the flow protocol's consumers and browsers: which deliveries may come on a bound flow."""

import struct
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from support.referees.flow.grammar import Fields, Frame, number_of, texts_of
from support.referees.violations import expect

_DELIVER: Final = struct.Struct(">QQIIHBBQHHI")
_REDELIVERED, _DIRECT = 0x20, 0x40  # flags of DELIVER
_SLOTS: Final = {1: "text", 2: "bytes", 3: "text", 4: "text", 5: "u64", 6: "u64"}  # of DELIVER: no delay
_VALUE_BYTES: Final = (0, 0, 0, 8, 8, 8, None, None)  # of user properties by type; None: a u32 says it
_INACTIVE, _ACTIVE, _ENDED = 0, 1, 2  # states
_ASSIGNED, _DRAINING = 0, 1
_ACCEPTED, _RELEASED, _FAILED, _REJECTED, _EXTEND = range(5)  # outcomes
_COUNT_MAX: Final = 65_535


class SettleTimes(NamedTuple):
    """How long consumers have to settle. No frame says that; the default is no limit."""

    of_queue: Callable[[str], int] = lambda _: 0  # its `consumer_ack_timeout_ms`; 0: no limit
    now_ms: Callable[[], int] = lambda: 0


class Delivery(NamedTuple):
    """A DELIVER."""

    delivery_id: int
    message_id: int
    partition: int
    epoch: int
    tries: int  # this one included
    flags: int
    topic: str


def read_delivery(frame: Frame) -> Delivery:
    """Judge the form of a DELIVER. Raises WireViolation, and UnicodeDecodeError for what is no text."""
    body = frame.body
    expect(len(body) >= _DELIVER.size, "Consuming", "{} is short", frame)
    values = _DELIVER.unpack_from(body)
    delivery_id, message_id, partition, epoch, count, flags, priority, _, topic_bytes, key_bytes, rest_bytes = values
    key_at = _DELIVER.size + topic_bytes
    rest_at = key_at + key_bytes
    is_whole = rest_at + rest_bytes <= len(body)
    expect(is_whole and topic_bytes > 0 and key_bytes <= 255, "Consuming", "the lengths of {}", frame)
    expect(
        priority <= 9 and not flags & 0x10 and (count > 0 or epoch == 0),
        "Consuming",
        "{}, flags {:#x}",
        priority,
        flags,
    )
    body[key_at:rest_at].decode()
    _judge_properties(body[rest_at : rest_at + rest_bytes])
    return Delivery(delivery_id, message_id, partition, epoch, count, flags, body[_DELIVER.size : key_at].decode())


def _judge_properties(raw: bytes) -> None:
    pos = 0
    seen: set[int] = set()
    while pos < len(raw):
        slot, size = raw[pos], int.from_bytes(raw[pos + 1 : pos + 5], "big")
        value = raw[pos + 5 : pos + 5 + size]  # the name of a user property
        pos += 5 + size
        if slot & 0x80:
            value.decode()
            expect(slot & 0x7F < len(_VALUE_BYTES), "Properties", "slot {:#x}", slot)
            bytes_after = _VALUE_BYTES[slot & 0x7F]
            pos += 4 + int.from_bytes(raw[pos : pos + 4], "big") if bytes_after is None else bytes_after
        else:
            expect(slot in _SLOTS and slot not in seen, "Properties", "slot {:#x} in {}", slot, raw.hex())
            expect(_SLOTS[slot] != "u64" or size == 8, "Properties", "slot {:#x} of {} bytes", slot, size)
            if _SLOTS[slot] == "text":
                value.decode()
            seen.add(slot)
    expect(pos == len(raw), "Properties", "{} bytes beyond {}", pos - len(raw), raw.hex())


class Credit:
    """The highest delivery id that may come. What is recalled counts until the gateway has said so."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._said: list[tuple[int, bool]] = []  # since the last recall that was answered; whether it recalls

    @property
    def limit(self) -> int:
        return max(self._limit, *(value for value, _ in self._said)) if self._said else self._limit

    def client_says(self, body: bytes) -> None:
        value, is_recall = int.from_bytes(body[:8], "big"), body[8:] == b"\x01"
        if self._said or is_recall:
            self._said.append((value, is_recall))
        else:
            self._limit = max(self._limit, value)

    def answered(self, body: bytes, delivered_through: int) -> None:
        """Judge a CREDIT of the gateway."""
        expect(len(body) == 9, "Credit", "CREDIT of {}", body.hex())
        value, limit = int.from_bytes(body[:8], "big"), self._limit
        expect(any(is_recall for _, is_recall in self._said), "Credit", "CREDIT {}, and nothing was recalled", value)
        while self._said:
            said, is_recall = self._said.pop(0)
            limit = max(limit, said)
            if is_recall:
                break
        expect(delivered_through <= value <= limit, "Credit", "{} of {}, at {}", value, limit, delivered_through)
        self._limit = value
        while self._said and not self._said[0][1]:
            self._limit = max(self._limit, self._said.pop(0)[0])


class ConsumerReferee:
    """Judges one flow from its BIND on."""

    opened_by = "BIND"
    ended_by = "UNBIND"

    def __init__(self, asked: Fields, times: SettleTimes) -> None:
        self.is_over = False
        self._settle_ms_max = times.of_queue("".join(texts_of(asked, "name")))
        self._now_ms = times.now_ms
        self._browses = number_of(asked, "browses") == 1
        self._may_acknowledge = number_of(asked, "acknowledges") == 1
        self._credit = Credit(number_of(asked, "credit"))
        self._unsettled_max = 0
        self._state, self._state_number = _INACTIVE, 0
        self._list_number = 0  # of the last PARTITIONS
        self._partitions: dict[tuple[int, int], int] | None = None  # partition and epoch: state, by that list
        self._delivered_through = 0
        self._held: dict[int, tuple[int, int, int]] = {}  # by delivery id: partition, epoch, message id
        self._held_since_ms: dict[int, int] = {}  # or extended last; by delivery id
        self._sources: set[tuple[int, int]] = set()  # partitions and epochs that deliveries came from
        self._fates: dict[tuple[int, int, int], tuple[int, int]] = {}  # of messages: last count, and outcome
        self._settled_ids: dict[int, tuple[int, int, int]] = {}  # delivery ids, as in `_held`
        self._not_held: list[tuple[int, int]] = []  # ranges that were settled, and partly not held

    def answered(self, fields: Fields) -> None:
        """Judge the answer to BIND."""
        self._unsettled_max = number_of(fields, "unsettled limit")
        expect(self._unsettled_max > 0 or self._browses, "Consuming", "BIND is answered by {}", fields)
        acknowledges = number_of(fields, "acknowledges") == 1
        expect(self._may_acknowledge or not acknowledges, "Partitions", "{}, and it was not asked for", fields)
        if acknowledges:
            self._partitions = {}

    def gateway_says(self, frame: Frame, fields: Fields) -> None:
        """Judge what comes on the flow. Raises WireViolation."""
        if frame.kind == "DELIVER":
            self._delivered(read_delivery(frame))
        elif frame.kind == "FLOW_STATE":
            self._told(fields)
        elif frame.kind == "SETTLED":
            self._settled(frame.body)
        elif frame.kind == "CREDIT":
            expect(not self._browses, "Browsing", "{}, and it is not recalled", frame)
            self._credit.answered(frame.body, self._delivered_through)
        else:
            expect(frame.kind == "PARTITIONS" and self._partitions is not None, "Consuming", "{}", frame)
            self._listed(frame.body)

    def _delivered(self, it: Delivery) -> None:
        expect(it.delivery_id == self._delivered_through + 1, "Consuming", "{} behind {}", it, self._delivered_through)
        expect(it.delivery_id <= self._credit.limit, "Credit", "{}, and the limit is {}", it, self._credit.limit)
        expect(self._state == _ACTIVE, "States", "{} in state {}", it, self._state)
        expect(it.message_id > 0, "Consuming", "{} has no message id", it)
        expect((it.epoch == 0) == self._browses, "Consuming, Browsing", "the epoch of {}", it)
        self._delivered_through = it.delivery_id
        if self._browses:
            return
        source = it.partition, it.epoch
        expect(it.tries == 1 or bool(it.flags & _REDELIVERED), "Consuming", "{} is not flagged as redelivered", it)
        if self._partitions is not None:
            expect(self._partitions.get(source) == _ASSIGNED, "Partitions", "{}, of {}", it, self._partitions)
        self._judge_again(it)
        self._held[it.delivery_id] = *source, it.message_id
        self._held_since_ms[it.delivery_id] = self._now_ms()
        self._sources.add(source)
        # What another partition took along is held no more, and nobody says so.
        is_counted = len(self._sources) == 1 and len(self._held) > self._unsettled_max
        expect(not is_counted, "Credit", "{} are held, and {} may be", len(self._held), self._unsettled_max)

    def _judge_again(self, it: Delivery) -> None:
        """Settlement: what comes again was given back."""
        message = it.partition, it.epoch, it.message_id
        before, outcome = self._fates.get(message, (0, _RELEASED))
        expect(outcome not in (_ACCEPTED, _REJECTED), "Settlement", "{} comes again, its outcome is {}", it, outcome)
        if outcome == _EXTEND:  # its time to settle is over, and that counts as a failure
            self._held = {each: held for each, held in self._held.items() if held != message}
        least = min(before + (outcome != _RELEASED), _COUNT_MAX)
        expect(it.tries >= least, "Settlement", "the count of {}: it was {}, outcome {}", it, before, outcome)
        expect(before == 0 or bool(it.flags & _REDELIVERED), "Consuming", "{} is not flagged as redelivered", it)
        self._fates[message] = it.tries, _EXTEND  # held

    def _told(self, fields: Fields) -> None:
        state, number = number_of(fields, "state"), number_of(fields, "state number")
        expect(number == self._state_number + 1, "States", "number {} behind {}", number, self._state_number)
        expect(state <= _ENDED, "States", "{}", fields)
        expect(number == 1 or state != self._state, "States", "{} again", fields)
        expect((state == _ENDED) == bool(number_of(fields, "code")), "States", "the code of {}", fields)
        self._state, self._state_number = state, number
        if state == _INACTIVE:
            self._let_go(self._held)
        self.is_over = state == _ENDED

    def _settled(self, body: bytes) -> None:
        for first, last in ranges_of(body, 16):
            expect(first <= last, "Settlement", "SETTLED {} to {}", first, last)
            was_named = any(low <= first and last <= high for low, high in self._not_held)
            expect(was_named or last <= self._delivered_through, "Settlement", "SETTLED {} to {}", first, last)
            for delivery_id in [each for each in self._settled_ids if first <= each <= last]:  # in vain
                self._fates.pop(self._settled_ids.pop(delivery_id), None)
            self._let_go(self._ids(first, last))

    def _let_go(self, ids: Iterable[int]) -> None:
        for delivery_id in list(ids):
            self._fates.pop(self._held.pop(delivery_id), None)

    def _listed(self, body: bytes) -> None:
        expect(len(body) >= 8 and len(body) == 8 + 13 * int.from_bytes(body[4:8], "big"), "Partitions", "{!r}", body)
        number = int.from_bytes(body[:4], "big")
        expect(number == self._list_number + 1, "Partitions", "list {} behind {}", number, self._list_number)
        self._list_number = number
        entries = list(struct.iter_unpack(">IIBI", body[8:]))
        self._partitions = {(partition, epoch): state for partition, epoch, state, _ in entries}
        is_right = all(epoch and state in (_ASSIGNED, _DRAINING) for _, epoch, state, _ in entries)
        expect(is_right and len({each[0] for each in entries}) == len(entries), "Partitions", "{}", entries)

    # --- the client ---

    def client_says(self, frame: Frame) -> None:
        """Take the client's frame on the flow."""
        if frame.kind == "CREDIT":
            self._credit.client_says(frame.body)
        elif frame.kind == "SETTLE":
            # What was taken back is not accepted by this, and nobody is told.
            self._let_go(self._ids(1, int.from_bytes(frame.body[:8], "big")))
            for first, last, outcome in struct.iter_unpack(">QQB", frame.body[10:]):
                found = self._ids(first, last)
                if len(found) <= last - first:
                    self._not_held.append((first, last))
                if outcome == _EXTEND:
                    self._extends(found)
                else:
                    self._settles(found, outcome)

    def _ids(self, first: int, last: int) -> list[int]:
        """Return which of these are in flight."""
        if last - first < len(self._held):
            return [each for each in range(first, last + 1) if each in self._held]
        return [each for each in self._held if first <= each <= last]

    def _settles(self, ids: list[int], outcome: int) -> None:
        for delivery_id in ids:
            message = self._held.pop(delivery_id)
            count, _ = self._fates[message]
            is_void = outcome in (_ACCEPTED, _REJECTED) and self._is_late(delivery_id)
            self._fates[message] = count, _FAILED if is_void else outcome
            self._settled_ids[delivery_id] = message

    def _extends(self, ids: list[int]) -> None:
        for delivery_id in ids:
            if not self._is_late(delivery_id):
                self._held_since_ms[delivery_id] = self._now_ms()

    def _is_late(self, delivery_id: int) -> bool:
        """Whether a delivery has failed (redelivery.md, Time to settle): what is said of it then changes nothing."""
        return 0 < self._settle_ms_max <= self._now_ms() - self._held_since_ms[delivery_id]


def ranges_of(body: bytes, size: int) -> list[tuple[int, ...]]:
    """Return the entries of so many bytes behind their count in two. Raises WireViolation."""
    count = int.from_bytes(body[:2], "big")
    expect(count > 0 and len(body) == 2 + size * count, "Settlement", "{} bytes for {} ranges", len(body), count)
    return list(struct.iter_unpack(">QQ", body[2:]))
