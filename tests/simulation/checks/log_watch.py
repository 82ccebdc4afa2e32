"""The node's log as evidence: an error that the simulation did not cause is a fault of the node."""

import logging

DAMAGE = ("cannot be read", "was set aside")
FAILURES = ("the simulated disk", "the spool has failed 5 times in a row")


class LogWatch(logging.Handler):
    """Collects errors while a run lasts, and keeps everything else quiet."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.errors: list[str] = []
        self.expected = [*DAMAGE, *FAILURES]  # errors that the simulation causes
        self._logger = logging.getLogger("sluicegate")
        self._before = self._logger.level, self._logger.propagate
        self._logger.setLevel(logging.ERROR)
        self._logger.propagate = False
        self._logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if not any(each in text for each in self.expected):
            self.errors.append(text if record.exc_info is None else f"{text} ({self.format(record)})")

    def stop(self) -> None:
        """Leave the log as it was."""
        self._logger.removeHandler(self)
        level, self._logger.propagate = self._before
        self._logger.setLevel(level)
