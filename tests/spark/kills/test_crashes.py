"""Gateway and driver die in the midst of batches: every row is once in the target queue, in files and in a Delta table.

What dies does so at a moment that the test chooses: when a row, a request to stage or a commit has just passed, and
before anybody could act on its answer.
"""

from pathlib import Path

import pytest

from sluicegate.protocols.flow.codec import frame as frames
from support.flow.cutting_proxy import CuttingProxy
from support.processes.gateway import GatewayProcess, wait_until
from support.spark.copied_rows import everything_is_there_once, gateway_with_rows
from support.spark.processes import Copying

SEEN_S = 300


def something_is_staged(broker: GatewayProcess) -> bool:
    return broker.metric("sluicegate_staged_bytes") > 0


def a_commit_is_made(broker: GatewayProcess) -> bool:
    """Since the gateway was started last."""
    return broker.metric("sluicegate_transactions_ended_total", outcome="committed") > 0


@pytest.mark.crash
@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_every_row_arrives_once_though_gateway_and_driver_are_killed_three_times_each(tmp_path: Path) -> None:
    """In the middle of a range; while rows are staged; and between the gateway's commit and Spark's."""
    with gateway_with_rows(tmp_path / "gateway") as broker, CuttingProxy(broker.ports["flow"]) as line:
        copying = Copying(line.url, tmp_path)
        line.dies_at((frames.ROWS, 3))
        with copying.killed():
            line.dead_client()
            broker.kill9()

            line.dies_at((frames.STAGE, 1))
            broker.start()
            line.dead_client()
            wait_until(lambda: something_is_staged(broker), within_s=SEEN_S, what="staged rows")
            broker.kill9()

            line.dies_at((frames.COMMIT_STAGED, 1))
            broker.start()
            line.dead_client()
            wait_until(lambda: a_commit_is_made(broker), within_s=SEEN_S, what="the gateway's commit")
            broker.kill9()

            line.dies_at((frames.COMMIT_STAGED, 1))  # the driver asks again, and does not hear the answer either
            broker.start()
            line.dead_client()

        for point in ((frames.ROWS, 3), (frames.STAGE, 1)):
            line.dies_at(point)
            with copying.killed():
                line.dead_client()

        with copying.to_the_end():
            pass
        everything_is_there_once(broker, tmp_path)
