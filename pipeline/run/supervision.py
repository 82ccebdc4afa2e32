"""Retries temporary failures from the checkpoint, and gives up on permanent ones."""

import logging
from collections.abc import Callable
from threading import Event
from typing import Final, TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from pyspark_sluicegate.options import OptionError
from pyspark_sluicegate.reading.checkpoint import CheckpointError
from pyspark_sluicegate.reading.offsets import OffsetError
from sluicegate import FlowClientError
from sluicegate.pipeline.failures import JobFailed, failure_of

ATTEMPTS_MAX: Final = 10  # that fail with no batch between; with the delays below, about five minutes
DELAY_FIRST_S: Final = 1.0  # doubled with each further one
DELAY_MAX_S: Final = 60.0

_log: Final = logging.getLogger("pipeline")

Done = TypeVar("Done")


def supervise(attempt: Callable[[], Done], batch_count: Callable[[], int], stopping: Event) -> Done | None:
    """Run attempts until one ends well, and return what it did; None when the job is to stop. Raises JobFailed.

    `batch_count` returns the number of completed batches: a job that makes progress, even slowly, is never given up.
    """
    failed_count, seen = 0, batch_count()
    while not stopping.is_set():
        try:
            return attempt()
        except (PySparkException, Py4JError, FlowClientError, CheckpointError, OffsetError, OptionError) as error:
            failure = failure_of(error)
        if stopping.is_set():
            _log.warning("while the job was ending: %s", failure.text)
            return None
        through = batch_count()
        if through > seen:
            failed_count, seen = 0, through
        failed_count += 1
        if failure.passes is None or failed_count == ATTEMPTS_MAX:
            raise JobFailed(failure.text)
        delay_s = min(DELAY_MAX_S, DELAY_FIRST_S * 2 ** (failed_count - 1))
        _log.warning("the job restarts in %.0f s, because %s: %s", delay_s, failure.passes, failure.text)
        stopping.wait(delay_s)
    return None
