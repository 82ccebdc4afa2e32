"""What replicas report: warnings are about what a run does to them, and the last error says why one has failed."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager


class Report(logging.Handler):
    """The log of all replicas."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.last = ""  # error

    def emit(self, record: logging.LogRecord) -> None:
        """Take a line."""
        self.last = record.getMessage()

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Take what is reported within the block, and have nobody else get it."""
        log = logging.getLogger("sluicegate")
        propagate, log.propagate = log.propagate, False
        log.addHandler(self)
        try:
            yield
        finally:
            log.removeHandler(self)
            log.propagate = propagate
