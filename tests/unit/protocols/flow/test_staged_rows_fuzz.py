"""Rows that clients stage, damaged in every way: they become batches or a violation, and nothing else comes out."""

from sluicegate.protocols.flow.codec.codes import PeerViolation
from sluicegate.protocols.flow.codec.frame import SESSION, STAGE, cut_frame, encode_frame
from sluicegate.protocols.flow.codec.frames.stage import StageRows, read_staging_frame
from sluicegate.protocols.flow.codec.limits import FRAME_BYTES_MAX
from sluicegate.protocols.flow.datapath.bulk_rows import batches_of
from support.flow.golden import golden_frames
from support.hostile.mutated_bytes import ROUNDS, chance_of, mutated

STAGES = [case.data for case in golden_frames() if case.data[4:6] == bytes([STAGE, 0])]
WALL_MS = 1_700_000_000_000


def damaged(data: bytes, body: bytes) -> StageRows:
    """Return a STAGE whose body is another. Raises PeerViolation."""
    frame = cut_frame(data, 0, len(data), FRAME_BYTES_MAX)
    assert frame is not None
    data = encode_frame(STAGE, 0, SESSION, data[frame.fields_at : frame.body_at], body)
    frame = cut_frame(data, 0, len(data), FRAME_BYTES_MAX)
    assert frame is not None
    stage = read_staging_frame(frame, data)
    assert isinstance(stage, StageRows)
    return stage


def test_damaged_rows_become_batches_or_a_violation() -> None:
    """Flow: staged publishing. Method: the bodies of golden frames, damaged; all rows of what is taken are there."""
    chance = chance_of(92)
    taken_count = 0
    for number in range(ROUNDS):
        data = chance.choice(STAGES)
        frame = cut_frame(data, 0, len(data), FRAME_BYTES_MAX)
        assert frame is not None
        body = mutated(chance, data[frame.body_at : frame.end])
        try:
            stage = damaged(data, body)
            batches = batches_of(stage, "client", WALL_MS)
        except PeerViolation:
            continue
        except Exception as error:
            raise AssertionError(f"round {number}: {body.hex()}") from error
        taken_count += 1
        assert sum(batch.count for batch in batches) == stage.columns.count
    assert taken_count > ROUNDS // 100, "some damage leaves rows that can be read"
