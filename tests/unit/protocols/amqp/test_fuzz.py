"""Any bytes give AMQP events or DecodeError, never another exception, and never a hang: golden bytes, mutated.

Frames are mutated in their bodies and then given their new size, or else hardly one would come past the framing.
"""

import random

from sluicegate.messaging.message.batch import AT_LEAST_ONCE, MessageBatch
from sluicegate.messaging.message.headers import Headers
from sluicegate.protocols.amqp.codec.frames import AMQP_FRAME
from sluicegate.protocols.amqp.codec.sections import find_sections
from sluicegate.protocols.amqp.engine.events import CloseReceived, PeerViolated
from sluicegate.protocols.amqp.limits import AmqpLimits
from sluicegate.protocols.amqp.messages.decode import read_message
from sluicegate.protocols.amqp.messages.encode import write_message
from sluicegate.protocols.amqp.types.decoding import decode, skip
from sluicegate.protocols.amqp.types.encoding import encode
from sluicegate.protocols.amqp.types.errors import DecodeError
from sluicegate.protocols.mqtt.engine.publish_writer import encode_at_most_once
from sluicegate.storage.records.batch import decode_batch, encode_rows
from support.amqp.engine_owner import EngineOwner
from support.amqp.golden import COMPOSITES, described, frames_of, golden
from support.hostile.mutated_bytes import ROUNDS, chance_of, mutated

LIMITS = AmqpLimits(frame_bytes_max=4096, message_bytes_max=20_000, partial_bytes_max=40_000)
WALL_MS = 1_700_000_000_000
AMQP_HEADER = b"AMQP\x00\x01\x00\x00"
SASL_HEADER = b"AMQP\x03\x01\x00\x00"
BEGINNING = ("open", "begin", "attach-sender", "attach-receiver", "flow")


def resized(chance: random.Random, frame: bytes) -> bytes:
    """Return a frame with a mutated body and a head that fits it, or now and then one that does not."""
    if chance.random() < 0.1:
        return mutated(chance, frame)
    body = mutated(chance, frame[8:])
    channel = b"\x00\x00" if chance.random() < 0.9 else chance.randbytes(2)
    return (len(body) + 8).to_bytes(4, "big") + frame[4:6] + channel + body


def check_written(stream: bytes) -> None:
    """Everything we wrote can be read: composites that the specification knows, and open before all others."""
    names: list[str] = []
    for frame, data in frames_of(stream):
        if frame is not None and frame.kind == AMQP_FRAME and frame.body_at != frame.end:
            value, _ = decode(data, 8, len(data))
            names.append(described(value).partition("(")[0])
    assert names[:1] in ([], ["open"])
    assert set(names) <= {composite.name for composite in COMPOSITES.values()}


def check_message(data: bytes) -> None:
    """A message that was understood can be stored and read back, and sent on to consumers of every protocol."""
    message = read_message(data, WALL_MS)
    assert message.headers is not None
    batch = MessageBatch(
        topic="t",
        topics=None,
        payloads=[message.payload],
        headers=[message.headers],
        qos=AT_LEAST_ONCE,
        retain=False,
        publisher="c",
        received_ms=WALL_MS,
        payload_bytes=len(message.payload),
    )
    stored, _ = decode_batch(encode_rows(batch, 0, 1), 0)
    headers = stored.headers()
    assert headers is not None
    assert isinstance(headers[0], Headers)
    sent = write_message(
        message.payload, headers[0], topic="t", durable=True, delivery_count=1, is_first=False, wall_ms=WALL_MS
    )
    arrived, left = find_sections(sent), find_sections(data)
    assert sent[arrived.travels_at :] == data[left.travels_at :]
    for level in (4, 5):
        encode_at_most_once(batch, level, WALL_MS)


def test_mutated_values_are_decoded_or_refused() -> None:
    """1.2, 1.6: both ways through a value agree on its length, and what was decoded can be encoded again."""
    chance = chance_of(40_001)
    valid = list(golden("values.txt").values())
    for _ in range(ROUNDS):
        data = mutated(chance, b"\xd0\x00\x00\x00\x40\x00\x00\x00\x02" + b"".join(chance.choices(valid, k=2)))[9:]
        try:
            value, end = decode(data, 0, len(data))
        except DecodeError:
            continue
        assert skip(data, 0, len(data)) == end
        again = encode(value)
        assert repr(decode(again, 0, len(again))[0]).replace("0xa", "0xb") == repr(value).replace("0xa", "0xb")


def test_mutated_messages_are_understood_or_refused() -> None:
    """3.2: only DecodeError comes out; whatever else comes out is a message for everybody."""
    chance = chance_of(40_002)
    valid = list(golden("messages.txt").values())
    understood = 0
    for _ in range(ROUNDS):
        try:
            check_message(mutated(chance, chance.choice(valid)))
        except DecodeError:
            continue
        understood += 1
    assert understood > ROUNDS // 50, "most mutations would otherwise prove nothing"


def test_mutated_frames_of_an_open_connection_give_events_only() -> None:
    """Case 20, 2.3 to 2.8: a client that is let in, opens, begins and attaches both ways, and then talks nonsense."""
    chance = chance_of(40_003)
    valid = golden("frames.txt")
    frames = [data for data in valid.values() if data[5] == 0]
    for _ in range(ROUNDS):
        owner = EngineOwner(limits=LIMITS)
        talk = [valid[name] for name in BEGINNING] + chance.choices(frames, k=chance.randint(1, 4))
        for _ in range(chance.randint(1, 2)):
            at = chance.randrange(len(talk))
            talk[at] = resized(chance, talk[at])
        stream = AMQP_HEADER + b"".join(talk)
        cut = chance.randint(0, len(stream))
        owner.hears(stream[:cut], stream[cut:])
        for event in owner.events[:-1]:
            assert not isinstance(event, CloseReceived | PeerViolated), "such an event is the last"
        assert len(owner.engine._rest) <= LIMITS.frame_bytes_max
        check_written(owner.sent)


def test_mutated_beginnings_give_events_only() -> None:
    """2.2, 5.3: headers, SASL frames, and the open behind them, with something wrong in any of them."""
    chance = chance_of(40_004)
    valid = golden("frames.txt")
    sasl = [data for data in valid.values() if data[5] == 1]
    for _ in range(ROUNDS):
        owner = EngineOwner(limits=LIMITS, mechanisms=("PLAIN", "ANONYMOUS"))
        talk = [SASL_HEADER, valid["sasl-init-plain"], AMQP_HEADER, valid["open"], valid["begin"]]
        if chance.random() < 0.3:
            talk.insert(chance.randrange(len(talk)), chance.choice(sasl))
        at = chance.randrange(len(talk))
        talk[at] = mutated(chance, talk[at]) if len(talk[at]) == 8 else resized(chance, talk[at])
        stream = b"".join(talk)
        cut = chance.randint(0, len(stream))
        owner.hears(stream[:cut], stream[cut:])
        check_written(owner.sent)


def test_noise_is_not_held_for_long() -> None:
    """2.3.1: a frame larger than ours is refused by its first four bytes, so nobody makes us keep one."""
    chance = chance_of(40_005)
    for _ in range(ROUNDS // 100):
        owner = EngineOwner(limits=LIMITS)
        owner.hears(AMQP_HEADER)
        for _ in range(20):
            owner.hears(chance.randbytes(1000))
        assert owner.is_closed
