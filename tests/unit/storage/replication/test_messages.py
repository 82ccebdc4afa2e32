"""Messages of the replicated log: their bytes, and which of them count."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.storage.errors import DamagedRecord
from sluicegate.storage.records.cursor import CursorRecord
from sluicegate.storage.replication.levels import LEVEL, LevelTooHigh
from sluicegate.storage.replication.messages import (
    FIRST_PLACE,
    Begin,
    Epoch,
    Handed,
    Kind,
    Message,
    Place,
    decode_begin,
    decode_clean,
    decode_epoch,
    decode_handed,
    decode_message,
    encode_begin,
    encode_clean,
    encode_epoch,
    encode_handed,
    encode_message,
    place_after,
)

CURSOR = CursorRecord(7, 1000, [(1002, 1005)], 9000, [(1000, 1002, 3)], ((1000, 1_700_000_000_000, -2),))
NUMBERS = st.integers(0, 2**63)

# head: level, kind, chain; then epoch, position, time of the log; then the content
BEGIN = "01 00 0000000000000000 00 00 e807 0807060504030201 0465646765"
EPOCH = "01 01 9cf6d1f26474522f 02 00 e907 0161 05302e312e30"
RECORD = "01 03 4efa4ae733b8b7a9 02 01 ea07 646f6e65"
CANCEL = "01 04 f4c2b2a4d55b7c24 02 02 eb07"
RAISED = "02 07 0700000000000000 02 04 ed07"
CLEAN = (
    "01 05 3dc0582a1829aecd 02 03 ec07 01 25 534743 02 15000000 f3794acbab0f8391"  # one cursor, sealed
    "07 e807 a846 01 02 03 01 00 02 03 01 00 80d095ffbc31 00"
)
HANDED = "01 06 11000000000000 00 02 03 ec07 066c6f6e646f6e 05"
EPOCH_OF_SITE = "0161 05302e312e30 057061726973 05"


def test_golden_bytes() -> None:
    begin = encode_message(Kind.BEGIN, FIRST_PLACE, 1000, encode_begin(Begin(0x0102030405060708, "edge")))
    place = chained(begin, FIRST_PLACE)
    epoch = encode_message(Kind.EPOCH, place._replace(epoch=2, position=0), 1001, encode_epoch(Epoch("a", "0.1.0")))
    record = encode_message(Kind.RECORD, chained(epoch, place), 1002, b"done")
    cancel = encode_message(Kind.CANCEL, chained(record, chained(epoch, place)), 1003, b"")
    behind = chained(cancel, chained(record, chained(epoch, place)))
    clean = encode_message(Kind.CLEAN, behind, 1004, encode_clean([CURSOR]))
    level = encode_message(Kind.LEVEL, Place(2, 4, 7), 1005, b"", level=2)
    messages = (begin, epoch, record, cancel, clean, level)
    golden = (BEGIN, EPOCH, RECORD, CANCEL, CLEAN, RAISED)
    assert [each.hex() for each in messages] == [each.replace(" ", "") for each in golden]


def test_golden_bytes_of_two_sites() -> None:
    handed = encode_message(Kind.HANDED, Place(2, 3, 17), 1004, encode_handed(Handed("london", 5)))
    assert handed.hex() == HANDED.replace(" ", "")
    epoch = encode_epoch(Epoch("a", "0.1.0", "paris", 5))
    assert epoch.hex() == EPOCH_OF_SITE.replace(" ", "")
    assert decode_epoch(epoch, "it") == Epoch("a", "0.1.0", "paris", 5)
    assert decode_epoch(encode_epoch(Epoch("a", "0.1.0")), "it") == Epoch("a", "0.1.0")


@pytest.mark.parametrize("content", [b"", b"\x06lon"])
def test_a_handover_that_is_cut_short_is_damage(content: bytes) -> None:
    with pytest.raises(DamagedRecord, match="cannot be read"):
        decode_handed(content, "it")


def chained(data: bytes, place: Place) -> Place:
    """Return the place behind a message that counts."""
    message = decode_message(data, place, "it")
    assert message is not None
    return place_after(message, data)


@given(kind=st.sampled_from([Kind.PART, Kind.RECORD]), place=st.builds(Place, NUMBERS, NUMBERS, NUMBERS), time=NUMBERS)
def test_a_message_is_read_at_its_place_only(kind: Kind, place: Place, time: int) -> None:
    if place == FIRST_PLACE:
        return
    data = encode_message(kind, place, time, b"content")
    assert decode_message(data, place, "it") == Message(
        kind, place.chain, place.epoch, place.position, time, b"content"
    )
    for other in (
        place._replace(chain=place.chain + 1),
        place._replace(epoch=place.epoch + 1),
        place._replace(position=place.position + 1),
    ):
        assert decode_message(data, other, "it") is None


def test_an_epoch_message_counts_when_its_epoch_is_later() -> None:
    data = encode_message(Kind.EPOCH, Place(3, 0, 17), 0, encode_epoch(Epoch("a", "0")))
    assert decode_message(data, Place(2, 9, 17), "it") is not None
    assert decode_message(data, Place(3, 9, 17), "it") is None
    assert decode_message(data, Place(2, 9, 18), "it") is None


@given(st.binary(max_size=40))
def test_bytes_of_others_are_void(data: bytes) -> None:
    assert decode_message(data, Place(5, 5, 0xFEED_FACE_FEED_FACE), "it") is None


def test_a_message_of_a_higher_level_is_told_from_a_void_one() -> None:
    place = Place(1, 1, 99)
    data = encode_message(Kind.RECORD, place, 0, b"", level=LEVEL + 1)
    with pytest.raises(
        LevelTooHigh, match=f"level {LEVEL + 1} from message 7 on, and this release reads level {LEVEL}"
    ):
        decode_message(data, place, "message 7")
    assert decode_message(data, place._replace(chain=98), "message 7") is None
    with pytest.raises(DamagedRecord, match="it is of level 0"):
        decode_message(encode_message(Kind.RECORD, place, 0, b"", level=0), place, "message 7")


def test_what_fits_and_cannot_be_read_is_damaged() -> None:
    place = Place(1, 1, 99)
    with pytest.raises(DamagedRecord, match="it is of kind 9"):
        decode_message(bytes([1, 9]) + encode_message(Kind.RECORD, place, 0, b"")[2:], place, "it")
    with pytest.raises(DamagedRecord, match="its first one"):
        decode_message(encode_message(Kind.BEGIN, place, 0, b""), place, "it")
    with pytest.raises(DamagedRecord):
        decode_begin(b"short", "it")
    with pytest.raises(DamagedRecord):
        decode_epoch(b"\x05ab", "it")
    clean = encode_clean([CURSOR])
    assert decode_clean(clean, "it") == {7: CURSOR}
    for data in (clean[:-1], clean + b"x", clean[:-1] + b"x", b"\x02" + clean[1:]):
        with pytest.raises(DamagedRecord):
            decode_clean(data, "it")
