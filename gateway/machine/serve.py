"""Serve a machine with several brokers: the supervisor on an event loop, and what it prints when all are ready."""

import logging
from collections.abc import Callable

from sluicegate.gateway.config.model import Config
from sluicegate.gateway.machine.supervisor import Supervisor
from sluicegate.gateway.process.brokers import broker_names, count_of, total_count
from sluicegate.gateway.process.run import announce, begin_logging
from sluicegate.protocols.transport.loop import event_loop as socket_loop

log = logging.getLogger("sluicegate.machine")


def serve_machine(config: Config, *, reload: Callable[[], Config]) -> int:
    """Run as many brokers as the configuration asks for, until SIGTERM or SIGINT; return the exit code.

    With fewer brokers than have data, the others are retired: they run until these have what they had.
    Raises CannotStart.
    """
    begin_logging(config)
    count = 1 if config.brokers is None else count_of(config.brokers)
    total = total_count(config.data.path, count)

    async def run() -> int:
        supervisor = Supervisor(config, count, total, read=reload)
        what = f"is ready, with {count} brokers: {', '.join(broker_names(config.node.name, count))}."
        return await supervisor.run(announce=lambda *given: announce(what, *given))

    return socket_loop.run(run())
