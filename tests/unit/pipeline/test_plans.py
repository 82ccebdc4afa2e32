"""What a job would read, told without a gateway."""

import pytest

from sluicegate.pipeline.jobs.dmq.job import DmqJob
from sluicegate.pipeline.run import places
from sluicegate.protocols.flow.codec.frame import QUEUE_STATUS
from sluicegate.protocols.flow.codec.frames.cursor import Position, Positions


class TwoPartitions:
    """What a client of a gateway knows of a queue."""

    def queue_status(self, queue: str) -> Positions:
        assert queue == "dead"
        positions = (Position(0, 3, 3, 20, 0), Position(1, 1, 1, 1, 0))
        return Positions(QUEUE_STATUS, 1, epoch=0, incarnation=1, batch_ref="", positions=positions)


@pytest.mark.parametrize("limit", [{}, {"maxRowsPerTrigger": 5}, {"maxBytesPerTrigger": 5}])
def test_a_job_that_works_on_what_is_there_reads_all_of_it_whatever_limits_say(
    monkeypatch: pytest.MonkeyPatch, limit: dict[str, int]
) -> None:
    """docs/data/spark.md: the limits are those of a stream's batches."""
    monkeypatch.setattr(places, "bulk_for", lambda _: TwoPartitions())
    job = DmqJob(source={"url": "flow://127.0.0.1", "queue": "dead", **limit})
    assert places.plan_of(job)["tasks"] == [[{"partition": 0, "first": 3, "end": 20}]]
