"""Serve a machine with several brokers: the supervisor on an event loop, and what it prints when all are ready."""

import logging
from collections.abc import Callable

from sluicegate.gateway.config.model import Config
from sluicegate.gateway.machine.supervisor import Supervisor
from sluicegate.gateway.process.brokers import check_no_broker_is_left_out, count_of
from sluicegate.gateway.process.run import announce, begin_logging
from sluicegate.protocols.transport.loop import event_loop as socket_loop

log = logging.getLogger("sluicegate.machine")


def serve_machine(config: Config, *, reload: Callable[[], Config]) -> int:
    """Run as many brokers as the configuration asks for, until SIGTERM or SIGINT; return the exit code.

    Raises CannotStart.
    """
    assert config.brokers is not None, "else there is one process"
    begin_logging(config)
    count = count_of(config.brokers)
    check_no_broker_is_left_out(config.data.path, count)

    async def run() -> int:
        supervisor = Supervisor(config, count, read=reload)
        what = f"is ready, with {count} brokers: {', '.join(supervisor.names)}."
        return await supervisor.run(announce=lambda *given: announce(what, *given))

    return socket_loop.run(run())
