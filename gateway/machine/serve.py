"""Serve a machine with several brokers: the supervisor on an event loop, and what it prints when all are ready."""

import logging
import os
import sys
from collections.abc import Callable

from sluicegate.gateway.config.model import Config
from sluicegate.gateway.machine.layout import brokers_with_data, count_of
from sluicegate.gateway.machine.supervisor import Supervisor, announcement
from sluicegate.gateway.process.run import begin_logging
from sluicegate.gateway.views.errors import CannotStart
from sluicegate.protocols.transport.loop import event_loop as socket_loop

log = logging.getLogger("sluicegate.machine")


def serve_machine(config: Config, *, reload: Callable[[], Config]) -> int:
    """Run as many brokers as the configuration asks for, until SIGTERM or SIGINT; return the exit code.

    Raises CannotStart.
    """
    assert config.brokers is not None, "else there is one process"
    begin_logging(config)
    count = count_of(config.brokers)
    there_are = brokers_with_data(config.data.path)
    if there_are > count:
        text = f"the data folder {config.data.path} has the queues and sessions of {there_are} brokers"
        raise CannotStart(f"{text}, and brokers is {count}", advice=f"Start with --brokers {there_are}.")

    async def run() -> int:
        supervisor = Supervisor(config, count, read=reload)
        return await supervisor.run(announce=lambda endpoints: _print(announcement(supervisor.names, endpoints)))

    return socket_loop.run(run())


def _print(text: str) -> None:
    if sys.stdout is None:  # it was closed before the process started
        return
    try:
        os.write(sys.stdout.fileno(), (text + "\n").encode())
    except OSError as error:
        log.warning("cannot write the endpoints to standard output: %s", error.strerror)
