"""A batch whose columns have different numbers of rows cannot be made."""

import pytest

from sluicegate.messaging.message.batch import AT_LEAST_ONCE, MessageBatch, UnequalColumns
from sluicegate.messaging.message.headers import Headers


def batch(payloads: list[bytes], topics: list[str] | None, headers: list[Headers | None] | None) -> MessageBatch:
    return MessageBatch(
        topic="" if topics else "t",
        topics=topics,
        payloads=payloads,
        headers=headers,
        qos=AT_LEAST_ONCE,
        retain=False,
        publisher="p",
        received_ms=1,
        payload_bytes=sum(map(len, payloads)),
    )


@pytest.mark.parametrize(
    ("topics", "headers", "text"),
    [
        (["a"], None, "2 payloads with 1 topics"),
        (["a", "b", "c"], None, "2 payloads with 3 topics"),
        (None, [None], "2 payloads with 1 rows of headers"),
        (["a", "b"], [None, Headers(), None], "2 payloads with 3 rows of headers"),
    ],
)
def test_columns_of_other_lengths_than_the_payloads_are_refused(
    topics: list[str] | None, headers: list[Headers | None] | None, text: str
) -> None:
    with pytest.raises(UnequalColumns, match=text):
        batch([b"1", b"2"], topics, headers)


def test_headers_that_replace_others_have_as_many_rows() -> None:
    with pytest.raises(UnequalColumns):
        batch([b"1", b"2"], None, None).with_headers([None])
