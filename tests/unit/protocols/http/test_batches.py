"""Many messages in one request: what is read at a time, so that others have their turns, and what is too much."""

from collections.abc import Callable

import orjson
import pytest

from sluicegate.protocols.http.codec.responses import HttpProblem
from sluicegate.protocols.http.publishing.batches import (
    HEADERS_MAX,
    MULTIPART,
    NDJSON,
    PIECE_BYTES,
    VALUES_MAX,
    BatchEntry,
    read_batch,
)

COUNT_MAX = 10_000
MULTIPART_TYPE = "multipart/mixed; boundary=x"


def entries(body: bytes) -> list[BatchEntry]:
    return [entry for found in read_batch(NDJSON, "", body, COUNT_MAX) for entry in found]


def lines(*messages: object) -> list[BatchEntry]:
    return entries(b"\n".join(orjson.dumps(message) for message in messages))


def as_lines(count: int, payload: str) -> tuple[str, str, bytes]:
    return NDJSON, "", b"".join(orjson.dumps({"payload": payload}) + b"\n" for _ in range(count))


def as_parts(count: int, payload: str) -> tuple[str, str, bytes]:
    return MULTIPART, MULTIPART_TYPE, f"--x\r\n\r\n{payload}\r\n".encode() * count + b"--x--\r\n"


@pytest.mark.parametrize("form", [as_lines, as_parts])
@pytest.mark.parametrize(("count", "bytes_each"), [(1, 10), (COUNT_MAX, 1), (2000, 500), (3, PIECE_BYTES)])
def test_a_body_is_read_some_messages_at_a_time(
    form: Callable[[int, str], tuple[str, str, bytes]], count: int, bytes_each: int
) -> None:
    """All of 64 MiB at once held up everybody else for seconds."""
    pieces = list(read_batch(*form(count, "p" * bytes_each), COUNT_MAX))

    assert [entry.payload for found in pieces for entry in found] == [b"p" * bytes_each] * count
    assert max(sum(len(entry.payload) for entry in found[:-1]) for found in pieces) <= PIECE_BYTES
    assert len(pieces) >= count * bytes_each // (PIECE_BYTES + bytes_each)


def test_a_message_over_the_pieces_of_a_multipart_body_is_whole() -> None:
    payload = bytes(range(32, 127)) * (3 * PIECE_BYTES // 95)
    body = b"--x\r\nCorrelation: 1\r\n\r\n" + payload + b"\r\n--x\r\n\r\nnext\r\n--x--\r\n"

    pieces = list(read_batch(MULTIPART, MULTIPART_TYPE, body, COUNT_MAX))

    assert [entry.payload for found in pieces for entry in found] == [payload, b"next"]


def test_empty_lines_are_passed_over_and_count_too() -> None:
    between = b"\r\n" + b'{"payload":"a"}\r\n\r\n' * COUNT_MAX

    assert sum(len(found) for found in read_batch(NDJSON, "", between, COUNT_MAX)) == COUNT_MAX
    for too_many in (b"\n" * (COUNT_MAX + 2), between + b"{}"):
        with pytest.raises(HttpProblem) as refused:
            list(read_batch(NDJSON, "", too_many, COUNT_MAX))
        assert refused.value.status == 413


def test_a_line_has_a_bounded_number_of_values_whatever_its_texts_say() -> None:
    text = lines({"payload": ',[{\\"' * VALUES_MAX})
    short = lines({"payload": [0] * VALUES_MAX})
    long, after = lines({"payload": [{}] * VALUES_MAX * 2}, {"payload": "a"})

    assert (text[0].problem, short[0].problem, after.problem) == (None, None, None)
    assert long.problem is not None
    assert long.problem.status == 413


def test_a_text_without_an_end_is_looked_through_once() -> None:
    """Each quotation mark in it was taken for the beginning of one: a line of some MB held up everybody for hours."""
    (entry,) = entries(b'{"payload":"' + b'\\",' * VALUES_MAX * 2)

    assert entry.problem is not None
    assert entry.problem.status == 400


@pytest.mark.parametrize("count", [HEADERS_MAX, HEADERS_MAX + 1])
def test_a_message_has_a_bounded_number_of_headers(count: int) -> None:
    """A line of 64 MiB of them took 17 s."""
    (entry,) = lines({"payload": "", "headers": {f"h{number}": "x" for number in range(count)}})

    assert (entry.problem is None) == (count <= HEADERS_MAX)


def test_json_that_is_nested_too_deep_to_be_written_again_is_refused() -> None:
    deep = b'{"payload":' + b"[" * 1000 + b"]" * 1000 + b"}"

    (entry,) = entries(deep)

    assert entry.problem is not None
    assert entry.problem.status == 400
