"""Batches: columns of equal length, and how much memory they take."""

import sys
from sys import getsizeof

import pytest

from sluicegate.messaging.message.batch import AT_LEAST_ONCE, MessageBatch, UnequalColumns
from sluicegate.messaging.message.headers import Headers
from support.cores.messages import batch_of


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


def properties(count: int, letters: int) -> Headers:
    """Headers with texts of their own."""
    return Headers(user_properties=[(f"name-{number:06d}", f"{number:06d}" * letters) for number in range(count)])


def really_taken(headers: Headers) -> int:
    """What the interpreter says that the properties take."""
    found = headers.user_properties or []
    texts = [text for pair in found for text in pair if isinstance(text, str)]
    return getsizeof(headers) + getsizeof(found) + sum(getsizeof(each) for each in [*found, *texts])


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="sizes of objects are CPython's")
@pytest.mark.parametrize(("count", "letters"), [(1, 1), (20, 2), (1000, 1), (3, 5000)])
def test_user_properties_count_about_as_much_as_they_take(count: int, letters: int) -> None:
    """A message of MQTT 5 may have 60 kB of them and no payload: limits of memory have to see them."""
    headers = properties(count, letters)
    said = batch_of([b"x"], headers=[headers]).memory_bytes() - batch_of([b"x"]).memory_bytes()
    assert 0.7 < said / really_taken(headers) < 1.4


def test_headers_that_rows_share_count_once() -> None:
    shared = properties(10, 10)
    alone = batch_of([b"x"], headers=[shared]).memory_bytes() - batch_of([b"x"]).memory_bytes()
    for column in ([shared] * 100, [shared, *[None] * 98, shared]):
        together = batch_of([b"x"] * 100, headers=list(column))
        assert together.memory_bytes() - batch_of([b"x"] * 100).memory_bytes() == alone


def test_changed_copies_of_headers_are_measured_again() -> None:
    """Headers that batches share are looked at once; a message that fails is given more of them."""
    short = properties(1, 1)
    before = short.memory_bytes()
    longer = short.copy()
    longer.user_properties = properties(100, 10).user_properties
    assert longer.memory_bytes() > 10 * before
    assert short.memory_bytes() == before
