"""The frames of `tests/data/flow/frames.txt`, each read and written again. A new case is a new line."""

import pytest

from sluicegate.protocols.flow.codec import frame as frames
from sluicegate.protocols.flow.codec.codes import PeerViolation
from sluicegate.protocols.flow.codec.columns import KINDS, Columns, ColumnWriter
from sluicegate.protocols.flow.codec.frame import PREFACE
from sluicegate.protocols.flow.codec.frames.deliver import Delivered, DeliverHead, write_deliver
from sluicegate.protocols.flow.codec.frames.publish import PublishesReceived, write_publish
from sluicegate.protocols.flow.codec.frames.rows import RowsReceived, write_rows
from sluicegate.protocols.flow.codec.frames.stage import StageRows, write_stage
from support.flow.golden import GoldenFrame, decoded, golden_frames

CASES = golden_frames()
SENT_MS = 1_700_000_000_500

each_frame = pytest.mark.parametrize("case", CASES[1:], ids=lambda case: case.name)


def test_the_preface_is_eight_bytes_that_no_other_protocol_begins_with() -> None:
    """Flow: sessions."""
    assert CASES[0].data == PREFACE
    assert PREFACE[0] not in b"\x10\x16ACDGHOPT"


def again(columns: Columns) -> bytes:
    """Write columns again, as they came."""
    writer = ColumnWriter()
    for column in KINDS:
        if columns.columns & column:
            writer.put(column, [bytes(buffer) for buffer in columns.buffers(column)])
    return writer.encoded()


@each_frame
def test_golden_bytes_say_what_stands_beside_them(case: GoldenFrame) -> None:
    """Flow: frame types."""
    assert repr(decoded(case.data)) == case.says


@each_frame
def test_contents_of_golden_frames_are_written_as_the_same_bytes(case: GoldenFrame) -> None:
    """Flow: frame types. There is one way to write each frame."""
    said = decoded(case.data)
    if isinstance(said, PublishesReceived):
        headers = said.headers[0]
        written = write_publish(
            said.flow_id,
            said.sequences[0],
            said.topics[0],
            said.payloads[0],
            headers,
            to_queue=said.to_queue,
            ttl_ms=headers.expires_at_ms - SENT_MS if headers is not None else 0,
            delay_ms=headers.not_before_ms - SENT_MS if headers is not None else 0,
        )
    elif isinstance(said, Delivered):
        written = write_deliver(
            DeliverHead(
                said.flow_id,
                said.partition,
                said.epoch,
                delivery_count=said.delivery_count,
                redelivered=said.redelivered,
                was_direct=said.was_direct,
                first_of_group=said.first_of_group,
                received_ms=said.received_ms,
            ),
            said.delivery_id,
            said.message_id,
            topic=said.topic.encode(),
            headers=said.headers,
            payload=said.payload,
            wall_ms=SENT_MS,
        )
    elif isinstance(said, RowsReceived):
        written = write_rows(
            said.flow_id,
            said.number,
            first=said.first,
            next_sequence=said.next_sequence,
            end_readable=said.end_readable,
            partition=said.partition,
            is_last=said.is_last,
            gaps=said.gaps,
            count=said.columns.count,
            columns=said.columns.columns,
            data=again(said.columns),
        )
    elif isinstance(said, StageRows):
        written = write_stage(
            said.request_id,
            said.transaction,
            said.part,
            said.attempt,
            to_queues=said.to_queues,
            count=said.columns.count,
            columns=said.columns.columns,
            data=again(said.columns),
        )
    else:
        written = said.encode()
    assert written == case.data


def test_every_frame_type_has_a_golden_frame() -> None:
    assert {case.data[4] for case in CASES[1:]} == set(frames.NAMES)


def test_ids_of_other_than_all_partitions_that_are_spoken_of_are_malformed() -> None:
    """Flow: reading in bulk."""
    data = next(case.data for case in CASES if case.name == "cursor-bound-with-ids")
    ids = b"\x00\x56\x00\x10" + bytes(7) + b"\x07" + bytes(7) + b"\x0c"
    assert ids in data
    fewer = data.replace(ids, b"\x00\x56\x00\x08" + bytes(7) + b"\x07" + b"\x40\x00\x00\x04" + bytes(4))
    with pytest.raises(PeerViolation, match="of 2 partitions, with 8 bytes of ids"):
        decoded(fewer)
