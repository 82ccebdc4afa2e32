"""Messages of the replicated log: their bytes, and which of them count."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.storage.errors import DamagedRecord, UnsupportedFormat
from sluicegate.storage.replication.messages import (
    FIRST_PLACE,
    Begin,
    Epoch,
    Kind,
    Message,
    Place,
    decode_begin,
    decode_epoch,
    decode_message,
    encode_begin,
    encode_epoch,
    encode_message,
    place_after,
)

NUMBERS = st.integers(0, 2**63)

# head: version, kind, chain; then epoch, position, time of the log; then the content
BEGIN = "01 00 0000000000000000 00 00 e807 0807060504030201 0465646765"
EPOCH = "01 01 9cf6d1f26474522f 02 00 e907 0161 05302e312e30"
RECORD = "01 03 4efa4ae733b8b7a9 02 01 ea07 646f6e65"


def test_golden_bytes() -> None:
    begin = encode_message(Kind.BEGIN, FIRST_PLACE, 1000, encode_begin(Begin(0x0102030405060708, "edge")))
    place = chained(begin, FIRST_PLACE)
    epoch = encode_message(Kind.EPOCH, place._replace(epoch=2, position=0), 1001, encode_epoch(Epoch("a", "0.1.0")))
    record = encode_message(Kind.RECORD, chained(epoch, place), 1002, b"done")
    assert [each.hex() for each in (begin, epoch, record)] == [each.replace(" ", "") for each in (BEGIN, EPOCH, RECORD)]


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


def test_a_later_format_is_told_from_a_void_message() -> None:
    place = Place(1, 1, 99)
    data = bytes([2]) + encode_message(Kind.RECORD, place, 0, b"")[1:]
    with pytest.raises(UnsupportedFormat, match="message 7 has format 2; this release reads format 1"):
        decode_message(data, place, "message 7")
    assert decode_message(data, place._replace(chain=98), "message 7") is None


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
