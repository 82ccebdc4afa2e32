"""The columns of a batch survive the disk (layout in storage/records/batch.py)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.headers import Headers
from sluicegate.storage.errors import DamagedRecord, UnsupportedFormat
from sluicegate.storage.records.batch import BATCH_FORMAT, decode_batch, encode_batch, encode_rows
from support.storage.sample_records import attributes_of, batch, batches, rows_of


@given(original=batches(), before=st.binary(max_size=5), after=st.binary(max_size=5))
def test_a_batch_is_read_back_as_it_was_wherever_it_lies(original: MessageBatch, before: bytes, after: bytes) -> None:
    """What is stored is what was published. Law: decode(encode(batch)) equals the batch, row by row."""
    data = encode_batch(original)

    found, end = decode_batch(before + data + after, len(before))

    assert end == len(before) + len(data)
    assert rows_of(found) == rows_of(original)
    assert attributes_of(found) == attributes_of(original)


@given(original=batches(), data=st.data())
def test_a_range_of_rows_is_encoded_like_a_selection_of_them(original: MessageBatch, data: st.DataObject) -> None:
    """A page may take part of a batch. Law: encode_rows(b, i, j) equals encode_batch(b.select(i..j))."""
    start = data.draw(st.integers(0, original.count - 1))
    stop = data.draw(st.integers(start + 1, original.count))

    assert encode_rows(original, start, stop) == encode_batch(original.select(list(range(start, stop))))


@given(original=batches(), data=st.data())
def test_changed_bytes_give_a_batch_or_a_storage_error_and_nothing_else(
    original: MessageBatch, data: st.DataObject
) -> None:
    """Fuzz: only the decoder's own error types come out, even when no seal stands before it."""
    damaged = bytearray(encode_batch(original))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(damaged[: data.draw(st.integers(0, len(damaged)))])
    for variant in (bytes(damaged), cut):
        try:
            found, end = decode_batch(variant, 0)
        except (DamagedRecord, UnsupportedFormat):
            continue
        assert len(rows_of(found)) == found.count
        assert end <= len(variant)


def test_a_row_without_headers_costs_four_bytes_and_its_payload() -> None:
    """The format's promise: a length, and nothing else per row."""
    assert len(encode_batch(batch(101))) - len(encode_batch(batch(1))) == 100 * (4 + len(b"21.5"))


def test_a_row_without_headers_in_a_column_of_headers_costs_one_byte_more() -> None:
    """The format's promise for mixed traffic."""
    one = batch(2, headers=[Headers(priority=9), None])
    many = batch(12, headers=[Headers(priority=9), *[None] * 11])

    assert len(encode_batch(many)) - len(encode_batch(one)) == 10 * (1 + 4 + len(b"21.5"))


def test_more_than_65536_topics_in_one_batch_are_distinguished() -> None:
    """The index column grows from two bytes to four when a topic table needs it."""
    topics = [f"t/{number}" for number in range((1 << 16) + 1)]

    found, _ = decode_batch(encode_batch(batch(len(topics), topics=topics)), 0)

    assert found.topics == topics


@pytest.mark.parametrize(("start", "stop"), [(0, 0), (2, 1), (-1, 2), (0, 4)])
def test_rows_that_a_batch_does_not_have_are_refused(start: int, stop: int) -> None:
    """A batch has at least one row (messaging.message.batch)."""
    with pytest.raises(ValueError, match=f"rows {start} to {stop} of a batch of 3"):
        encode_rows(batch(3), start, stop)


def test_a_batch_of_another_release_is_refused_with_both_versions() -> None:
    """An old spool opens in a new release or is refused with a clear message."""
    data = b"\x09" + encode_batch(batch())[1:]

    with pytest.raises(UnsupportedFormat) as refusal:
        decode_batch(data, 0)

    assert (refusal.value.found, refusal.value.supported) == (9, BATCH_FORMAT)


@pytest.mark.parametrize("headers", [Headers(priority=256), Headers(priority=-1), Headers(timestamp_ms=1 << 2048)])
def test_an_attribute_the_format_cannot_hold_is_refused(headers: Headers) -> None:
    """Better no record than one that reads back as something else."""
    with pytest.raises(ValueError, match=r"is not an unsigned 8-bit integer|an integer of 2049 bits"):
        encode_batch(batch(1, headers=[headers]))
