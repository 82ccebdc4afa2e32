"""Rows of retained messages: what is written is read, and rows of earlier releases count as this broker's own."""

import pytest

from sluicegate.messaging.message.batch import AT_LEAST_ONCE, MessageBatch
from sluicegate.messaging.network.retained.versions import Version
from sluicegate.storage.errors import DamagedRecord, UnsupportedFormat
from sluicegate.storage.records.batch import encode_batch
from sluicegate.storage.records.retained import decode_retained, encode_retained


def batch() -> MessageBatch:
    return MessageBatch(
        topic="plant/7",
        topics=None,
        payloads=[b"on"],
        headers=None,
        qos=AT_LEAST_ONCE,
        retain=True,
        publisher="till",
        received_ms=1_700_000_000_000,
        payload_bytes=2,
    )


@pytest.mark.parametrize("version", [Version(0, 0, ""), Version((1 << 64) - 1, (1 << 32) - 1, "b" * 300)])
def test_a_message_and_a_deletion_are_read_as_they_were_written(version: Version) -> None:
    found, message = decode_retained(encode_retained(version, batch()), "me")
    assert message is not None
    assert (found, encode_batch(message)) == (version, encode_batch(batch()))
    assert decode_retained(encode_retained(version, None), "me") == (version, None)


def test_a_row_of_an_earlier_release_has_the_time_it_was_received_and_the_name_of_this_broker() -> None:
    found, message = decode_retained(encode_batch(batch()), "me")
    assert message is not None
    assert (found, encode_batch(message)) == (Version(1_700_000_000_000, 0, "me"), encode_batch(batch()))


def test_a_damaged_row_and_one_of_a_later_release_are_refused() -> None:
    row = encode_retained(Version(1, 2, "b"), None)
    for damaged in (row[:10], row + b"x", row[:1] + b"\3" + row[2:], row[:2] + b"\xff" + row[3:]):
        with pytest.raises(DamagedRecord):
            decode_retained(damaged, "me")
    with pytest.raises(UnsupportedFormat):
        decode_retained(b"\x82" + row[1:], "me")
