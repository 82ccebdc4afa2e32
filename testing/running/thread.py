"""A broker on a thread of the test's own process: it starts in milliseconds, and a debugger stops in it.

It has the interpreter in common with the test: what one computes, the other waits for.
"""

import asyncio
import logging
import threading
from pathlib import Path
from typing import Final

from sluicegate.gateway.observability.logs import TextLines
from sluicegate.protocols.transport.loop.event_loop import SocketLoop
from sluicegate.testing.errors import BrokerFailed
from sluicegate.testing.running.host import HostedBroker

CALL_S: Final = 60.0  # for a call to be carried out
LOGGER: Final = "sluicegate"


_log_lock: Final = threading.Lock()
_logs: "Final[list[LogFile]]" = []
_level_before = logging.NOTSET  # of the logger, when there was no log


class LogFile:
    """A file to which the log lines of the brokers in this process are appended, from INFO on."""

    def __init__(self, file: Path) -> None:
        global _level_before
        self._handler = logging.FileHandler(file, encoding="utf-8", delay=True)
        self._handler.setFormatter(TextLines())
        logger = logging.getLogger(LOGGER)
        with _log_lock:
            if not _logs:
                _level_before = logger.level
                logger.setLevel(min(logger.getEffectiveLevel(), logging.INFO))
            _logs.append(self)
        logger.addHandler(self._handler)

    def end(self) -> None:
        """Append no more. With the last file, the level of the logger is what it was before the first one."""
        logger = logging.getLogger(LOGGER)
        logger.removeHandler(self._handler)
        with _log_lock:
            _logs.remove(self)
            if not _logs:
                logger.setLevel(_level_before)
        self._handler.close()


class BrokerThread:
    """An event loop on a thread, with a broker."""

    def __init__(self, log: Path) -> None:
        """The log lines of all brokers in this process are appended to `log`."""
        self._loop = SocketLoop()
        self._hosted = HostedBroker()
        self._thread = threading.Thread(target=self._loop.run_forever, name="sluicegate-broker", daemon=True)
        self._log = LogFile(log)
        self._thread.start()

    def call(self, name: str, *arguments: object) -> object:
        """Have the broker carry out a call, and wait for it. Raises BrokerFailed and OperationRefused."""
        if self._loop.is_closed():
            raise BrokerFailed("its thread has ended")
        done = asyncio.run_coroutine_threadsafe(self._hosted.call(name, arguments), self._loop)
        try:
            return done.result(CALL_S)
        except TimeoutError:
            done.cancel()
            raise BrokerFailed(f"{name!r} was not carried out within {CALL_S:g} s") from None

    def crash(self) -> None:
        """End the broker with the data of this moment, and its thread."""
        self.call("crash")
        self.end()

    def end(self) -> None:
        """End the thread. Its broker is stopped."""
        asyncio.run_coroutine_threadsafe(self._loop.shutdown_default_executor(), self._loop).result(CALL_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._log.end()
