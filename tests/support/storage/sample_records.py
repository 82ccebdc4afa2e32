"""Batches, headers and jobs as the storage tests need them: builders with defaults, and hypothesis strategies."""

from hypothesis import strategies as st

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.headers import DeadLetter, Headers, UserPropertyValue
from sluicegate.storage.interface import CommitJob
from sluicegate.storage.records.cursor import CursorRecord
from sluicegate.storage.records.journal import JournalEntry, Match, Settlement, encode_journal_record
from sluicegate.storage.records.page import Run, encode_page

Row = tuple[str, bytes, Headers | None]

U32_MAX = (1 << 32) - 1
SEQUENCE_MAX = 1 << 62  # room for a run behind it

any_text = st.text(st.characters(), max_size=20)  # lone surrogates included
any_number = st.integers(-(1 << 70), 1 << 70)
user_property_values: st.SearchStrategy[UserPropertyValue] = st.one_of(
    st.none(), st.booleans(), any_number, st.floats(allow_nan=False), any_text, st.binary(max_size=20)
)
deaths = st.builds(
    DeadLetter,
    reason=any_text,
    queue=any_text,
    partition=st.integers(0, 999),
    delivery_count=st.integers(0, 1 << 40),
    died_ms=any_number,
    client=any_text,
    cause=any_text,
    was_eligible=st.booleans(),
    via=st.lists(any_text, max_size=3).map(tuple),
)
headers = st.builds(
    Headers,
    partition_key=st.none() | any_text,
    key_hash=st.integers(-1, 0xFFFF),
    expires_at_ms=any_number,
    not_before_ms=any_number,
    priority=st.integers(0, 255),
    payload_is_text=st.booleans(),
    content_type=st.none() | any_text,
    correlation=st.none() | st.binary(max_size=20),
    reply_to=st.none() | any_text,
    message_id=st.none() | any_text,
    timestamp_ms=any_number,
    dmq_eligible=st.booleans(),
    deliver_to_one=st.booleans(),
    eliding_eligible=st.booleans(),
    dead=st.none() | deaths,
    user_properties=st.none() | st.lists(st.tuples(any_text, user_property_values), max_size=4),
    native_format=st.integers(0, 255),
    native=st.binary(max_size=20),
)


def batch(
    count: int = 3,
    *,
    payload: bytes = b"21.5",
    topic: str = "plant/7/temperature",
    topics: list[str] | None = None,
    headers: list[Headers | None] | None = None,
) -> MessageBatch:
    """Return a batch of equal payloads."""
    return MessageBatch(
        topic=topic if topics is None else "",
        topics=topics,
        payloads=[payload] * count,
        headers=headers,
        qos=1,
        retain=False,
        publisher="meter-17",
        received_ms=1_700_000_000_000,
        payload_bytes=len(payload) * count,
    )


@st.composite
def batches(draw: st.DrawFn) -> MessageBatch:
    """Draw a batch with any combination of its columns."""
    payloads = draw(st.lists(st.binary(max_size=40), min_size=1, max_size=12))
    count = len(payloads)
    several = draw(st.booleans())
    topics = draw(st.lists(st.sampled_from(["", "a", "a/b", "ü/\ud800", "z"]), min_size=count, max_size=count))
    column = draw(st.none() | st.lists(st.none() | headers, min_size=count, max_size=count))
    return MessageBatch(
        topic="" if several else topics[0],
        topics=topics if several else None,
        payloads=payloads,
        headers=column,
        qos=draw(st.integers(0, 2)),
        retain=draw(st.booleans()),
        publisher=draw(any_text),
        received_ms=draw(st.integers(-(1 << 63), (1 << 63) - 1)),
        payload_bytes=sum(map(len, payloads)),
    )


@st.composite
def entries(draw: st.DrawFn) -> JournalEntry:
    """Draw a batch with matches that select all or some of its rows."""
    drawn = draw(batches())
    rows = st.none() | st.lists(st.integers(0, drawn.count - 1), min_size=1, max_size=5)
    match = st.builds(Match, st.integers(0, U32_MAX), st.integers(0, SEQUENCE_MAX), rows)
    return JournalEntry(drawn, draw(st.lists(match, max_size=3)))


settlements = st.builds(Settlement, st.integers(0, U32_MAX), st.integers(0, SEQUENCE_MAX), st.integers(0, SEQUENCE_MAX))


@st.composite
def page_runs(draw: st.DrawFn) -> list[Run]:
    """Draw the runs of a page: ascending, with and without gaps."""
    sequence = draw(st.integers(0, SEQUENCE_MAX))
    runs: list[Run] = []
    for drawn in draw(st.lists(batches(), min_size=1, max_size=4)):
        sequence += draw(st.integers(0, 3))
        runs.append(Run(sequence, drawn))
        sequence += drawn.count
    return runs


@st.composite
def cursors(draw: st.DrawFn) -> CursorRecord:
    """Draw a cursor whose ranges ascend from its floor."""
    floor = draw(st.integers(0, SEQUENCE_MAX))
    steps = st.lists(st.tuples(st.integers(0, 1000), st.integers(1, 1 << 40)), max_size=6)
    settled = _ranges(floor, draw(steps))
    redelivered = [(first, end, draw(st.integers(0, 1 << 40))) for first, end in _ranges(floor, draw(steps))]
    waiting = st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1 << 50), st.integers(-2, 0xFFFF)), max_size=4)
    delays: list[tuple[int, int, int]] = []
    behind = floor
    for distance, due_ms, key in draw(waiting):
        behind += distance
        delays.append((behind, due_ms, key))
    next_sequence = draw(st.integers(0, SEQUENCE_MAX))
    return CursorRecord(draw(st.integers(0, U32_MAX)), floor, settled, next_sequence, redelivered, tuple(delays))


def _ranges(behind: int, steps: list[tuple[int, int]]) -> list[tuple[int, int]]:
    ranges: list[tuple[int, int]] = []
    for distance, length in steps:
        ranges.append((behind + distance, behind + distance + length))
        behind += distance + length
    return ranges


def rows_of(any_batch: MessageBatch) -> list[Row]:
    """Return what consumers would see of a batch."""
    payloads = any_batch.payloads()
    return [(any_batch.topic_of(row), payloads[row], any_batch.headers_of(row)) for row in range(any_batch.count)]


def attributes_of(any_batch: MessageBatch) -> tuple[int, int, bool, str, int, int]:
    """Return what all rows of a batch share."""
    return (
        any_batch.count,
        any_batch.qos,
        any_batch.retain,
        any_batch.publisher,
        any_batch.received_ms,
        any_batch.payload_bytes,
    )


def publish_job(number: int, *, payload: bytes = b"21.5", count: int = 3, partition_id: int = 1) -> CommitJob:
    """Return a job that journals one batch for one partition."""
    entry = JournalEntry(batch(count, payload=payload), [Match(partition_id, number * 1000, None)])
    return CommitJob(number=number, record=encode_journal_record([entry], []))


def page_bytes(first_sequence: int, *, count: int = 3, payload: bytes = b"21.5") -> bytes:
    """Return an encoded page of one run."""
    return encode_page([Run(first_sequence, batch(count, payload=payload))])
