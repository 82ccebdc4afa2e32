"""Which failures of a job are tried again, and what is said of the others."""

import json
from collections.abc import Callable
from threading import Event

import pytest
from pyspark.errors import PySparkException

from pyspark_sluicegate.reading.offsets import Offset
from sluicegate import AuthenticationRefused, ConnectFailed
from sluicegate.pipeline.failures import GATEWAY_AWAY, HOST_TOO_BUSY, JobFailed, failure_of
from sluicegate.pipeline.run.attempt import ATTEMPTS_MAX, supervise
from sluicegate.pipeline.run.progress import lag_by_partition

OF_SPARK = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted due to stage failure:
Traceback (most recent call last):
  File "pyspark_sluicegate/reading/tasks.py", line 79, in _read_range
{raised}

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:570)
Caused by: org.apache.spark.SparkException: Task failed: it did
"""


class Impatient(Event):
    """Waits for nothing, and notes how long it was to."""

    def __init__(self) -> None:
        super().__init__()
        self.waited: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waited.append(timeout or 0)
        return self.is_set()


def failing(error: Exception, times: int) -> tuple[Callable[[], None], list[int]]:
    """Return an attempt that fails so many times, and the list that it writes each of its runs to."""
    runs: list[int] = []

    def attempt() -> None:
        runs.append(len(runs))
        if len(runs) <= times:
            raise error

    return attempt, runs


@pytest.mark.parametrize(
    ("raised", "passes"),
    [
        ("protocols.flow.client.errors.ConnectFailed: no connection for 30 s", GATEWAY_AWAY),
        ("protocols.flow.client.errors.RequestInterrupted: the connection broke", GATEWAY_AWAY),
        ("pyspark_sluicegate.reading.tasks.DataLossError: DATA LOSS in queue orders", None),
        ("protocols.flow.client.errors.RequestRefused: not-found (0x0301): no queue orders", None),
    ],
)
def test_errors_of_other_processes_are_found_in_the_text_of_spark(raised: str, passes: str | None) -> None:
    failure = failure_of(RuntimeError(OF_SPARK.format(raised=raised)))
    assert failure.text == raised.rpartition("errors.")[2].removeprefix("pyspark_sluicegate.reading.tasks.")
    assert failure.passes == passes


@pytest.mark.parametrize(
    "text",
    [
        "[STREAM_FAILED] Query [id = 1] terminated: Python worker failed to connect back. SQLSTATE: XXKST",
        "Job aborted due to stage failure:\n Lost task 0.3: SparkException: Python worker failed to connect back.",
    ],
)
def test_a_host_on_which_python_starts_too_slowly_is_tried_again_and_the_gateway_not_blamed(
    text: str, caplog: pytest.LogCaptureFixture
) -> None:
    attempt, runs = failing(PySparkException(text), times=1)
    supervise(attempt, lambda: 0, Impatient())
    assert len(runs) == 2
    assert HOST_TOO_BUSY in caplog.text
    assert GATEWAY_AWAY not in caplog.text


def test_a_job_whose_gateway_was_away_begins_again_ever_later() -> None:
    stopping = Impatient()
    attempt, runs = failing(ConnectFailed("nobody there"), times=8)
    supervise(attempt, lambda: 0, stopping)
    assert len(runs) == 9
    assert stopping.waited == [1, 2, 4, 8, 16, 32, 60, 60]


def test_a_job_that_gets_nowhere_is_given_up() -> None:
    attempt, runs = failing(ConnectFailed("nobody there"), times=100)
    with pytest.raises(JobFailed, match="ConnectFailed: nobody there"):
        supervise(attempt, lambda: 0, Impatient())
    assert len(runs) == ATTEMPTS_MAX


def test_a_job_that_gets_on_between_failures_is_not_given_up() -> None:
    attempt, runs = failing(ConnectFailed("nobody there"), times=100)
    supervise(attempt, lambda: len(runs), Impatient())
    assert len(runs) == 101


def test_permanent_failures_are_not_retried() -> None:
    attempt, runs = failing(AuthenticationRefused("who are you?"), times=100)
    with pytest.raises(JobFailed, match="AuthenticationRefused: who are you"):
        supervise(attempt, lambda: 0, Impatient())
    assert len(runs) == 1


def test_a_job_that_is_ended_while_it_fails_has_not_failed() -> None:
    stopping = Event()

    def attempt() -> None:
        stopping.set()
        raise ConnectFailed("nobody there")

    supervise(attempt, lambda: 0, stopping)


def place(sequences: dict[int, int], *, ids: dict[int, int] | None = None) -> str:
    """Return Spark's text of an offset at these sequences, in partitions of these ids."""
    return json.dumps(
        Offset(queue="q", cursor="c", mode="tap", incarnation=1, epoch=1, next=sequences, ids=ids or {}).to_json()
    )


def test_lag_is_counted_in_each_partition_from_where_the_batch_ended() -> None:
    # A partition that the batch had not heard of begins with its first sequence.
    assert lag_by_partition([place({0: 10, 1: 5})], [place({0: 12, 1: 5, 2: 4})]) == {"0": 2, "1": 0, "2": 3}
    assert lag_by_partition(["other"], [""]) == {}


def test_a_partition_that_came_back_under_its_number_lags_from_its_first_message_on() -> None:
    """The queue had fewer for a time: what the number's first bearer had reached says nothing of the second."""
    reached = place({0: 10, 1: 500}, ids={0: 21, 1: 22})
    assert lag_by_partition([reached], [place({0: 12, 1: 20}, ids={0: 21, 1: 23})]) == {"0": 2, "1": 19}
    assert lag_by_partition([reached], [place({0: 12, 1: 520}, ids={0: 21, 1: 22})]) == {"0": 2, "1": 20}
