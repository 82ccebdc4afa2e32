"""Message annotations that are added on the way, most of them given with the outcome modified (3.4.5).

They are kept as encoded maps, one behind another, oldest first. The last value of a key counts, and null removes it.
"""

from typing import Final

from sluicegate.protocols.amqp.codec.sections import MESSAGE_ANNOTATIONS, NOWHERE, find_sections
from sluicegate.protocols.amqp.types.decoding import decode
from sluicegate.protocols.amqp.types.encoding import encode
from sluicegate.protocols.amqp.types.values import AmqpMap, AmqpValue, Symbol

FREE_PREFIX: Final = "x-"  # keys with other beginnings are the standard's own (3.2.10)

# What the first message of a group carries that a consumer gets; a bare message cannot have ActiveMQ's property added.
FIRST_OF_GROUP: Final = encode(AmqpMap([(Symbol("x-opt-group-first-for-consumer"), True)]))


def merged(annotations: AmqpMap) -> bytes:
    """Return the annotations that a consumer may give, as they are kept; nothing when there are none."""
    pairs = [(key, value) for key, value in annotations.pairs if isinstance(key, Symbol) and _is_free(key)]
    return encode(AmqpMap(pairs)) if pairs else b""


def with_annotations(message: bytes, added: bytes) -> bytes:
    """Return a message with what consumers have noted among its annotations. The bare message stays as it is."""
    sections = find_sections(message)
    merged: dict[Symbol, AmqpValue] = {}
    if sections.annotations_at != NOWHERE:
        _merge(merged, message, sections.annotations_at)
    pos = 0
    while pos < len(added):
        pos = _merge(merged, added, pos)
    kept = AmqpMap([(key, value) for key, value in merged.items() if value is not None])
    section = bytes((0x00, 0x53, MESSAGE_ANNOTATIONS)) + encode(kept) if kept.pairs else b""
    return message[: sections.travels_at] + section + message[sections.bare_at :]


def _merge(merged: dict[Symbol, AmqpValue], data: bytes, pos: int) -> int:
    """Merge the map at `pos`; return where it ends."""
    annotations, end = decode(data, pos, len(data))
    assert isinstance(annotations, AmqpMap), "what is kept was checked when it came"
    for key, value in annotations.pairs:
        if isinstance(key, Symbol):
            merged[key] = value
    return end


def _is_free(key: Symbol) -> bool:
    return key.text.startswith(FREE_PREFIX)
