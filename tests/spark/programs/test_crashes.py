"""Drivers and gateways die in the midst of batches: every row is in the target queue, and in files, once.

What dies does so at a moment that the test chooses: when a row, a request to stage or a commit has just passed, and
before anybody could act on its answer.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from copied_rows import everything_is_there_once, gateway_with_rows
from flow_line import FlowLine
from gateway_process import GatewayProcess, wait_until
from pipeline.configuration import DELTA
from protocols.flow import frames
from spark_processes import Copying

SEEN_S = 300

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.timeout(1500)]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[GatewayProcess]:
    """A gateway of the test's own, for it may be killed."""
    with gateway_with_rows(tmp_path / "gateway") as process:
        yield process


@pytest.fixture
def line(broker: GatewayProcess) -> Iterator[FlowLine]:
    """The way from Spark to the gateway."""
    with FlowLine(broker.ports["flow"]) as between:
        yield between


def something_is_staged(broker: GatewayProcess) -> bool:
    return broker.metric("sluicegate_staged_bytes") > 0


def a_commit_is_made(broker: GatewayProcess) -> bool:
    """Since the gateway was started last."""
    return broker.metric("sluicegate_transactions_ended_total", outcome="committed") > 0


def test_a_driver_is_killed_three_times(broker: GatewayProcess, line: FlowLine, tmp_path: Path) -> None:
    """In the middle of a range; while rows are staged; and between the gateway's commit and Spark's."""
    copying = Copying(line.url, tmp_path)
    line.dies_at((frames.ROWS, 3))
    with copying.killed():
        line.dead_client()

    line.dies_at((frames.STAGE, 1))
    with copying.killed():
        line.dead_client()
        wait_until(lambda: something_is_staged(broker), within_s=SEEN_S, what="staged rows")

    line.dies_at((frames.COMMIT_STAGED, 1))
    with copying.killed():
        line.dead_client()
        wait_until(lambda: a_commit_is_made(broker), within_s=SEEN_S, what="the gateway's commit")
    assert not list((tmp_path / "queue.checkpoint" / "commits").glob("[0-9]*")), "Spark has not heard of it"

    with copying.to_the_end():
        pass
    everything_is_there_once(broker, tmp_path)


def test_a_gateway_is_killed_three_times(broker: GatewayProcess, line: FlowLine, tmp_path: Path) -> None:
    """In the middle of a range; while rows are staged; and after its commit, before Spark heard of it."""
    line.dies_at((frames.ROWS, 3))
    with Copying(line.url, tmp_path, files_are=DELTA).to_the_end():
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

        broker.start()
    everything_is_there_once(broker, tmp_path, DELTA)
