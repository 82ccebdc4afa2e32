"""Run replicas of several brokers on one machine, each in a process of its own: `sluicegate serve` for one broker.

This process opens no port and passes no message. It starts the others, starts those again that end, and stops all in
order, each of which hands its broker over. They can do without it: if it dies, they stop in order as well.
"""

import asyncio
import logging
import os
import random
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, final

from sluicegate.gateway.cluster.background import watched
from sluicegate.gateway.cluster.replica.process import EXIT_CODES, End
from sluicegate.gateway.cluster.several.supervised import SUPERVISED
from sluicegate.gateway.config.model import Config
from sluicegate.gateway.process.run import begin_logging
from sluicegate.gateway.process.service_manager import ADDRESS_VARIABLE, tell_ready
from sluicegate.gateway.views.errors import CannotStart
from sluicegate.protocols.flow.client.session.session import Backoff

RESTART_FIRST_S, RESTART_MAX_S = 0.2, 30.0  # delays before a process that has ended is started again
NOT_AGAIN: Final = f"exit code {EXIT_CODES[End.OUTDATED]}"  # the log has to have another release
STOP_S: Final = 30.0  # for a process to stop; one that has not by then is killed

log = logging.getLogger("sluicegate.cluster")


def serve_brokers(config: Config, brokers: Mapping[str, Config], arguments: Sequence[str]) -> int:
    """Run a replica of each broker until SIGTERM or SIGINT; return the exit code. SIGHUP has all read their settings.

    `brokers`: the configuration of each, by name. `arguments`: those of `sluicegate serve`, without the broker. Raises
    CannotStart when two of them want the same port.
    """
    begin_logging(config)
    check_ports(brokers)
    asyncio.run(_Brokers(tuple(brokers), arguments).run())
    return 0


def check_ports(brokers: Mapping[str, Config]) -> None:
    """Raise CannotStart when two brokers want the same port."""
    taken: dict[tuple[str, int], str] = {}
    for name, config in brokers.items():
        ports = {f"listeners.{each}": listener for each, listener in config.listeners.enabled().items()}
        for where, port in {**ports, **config.operator_ports()}.items():
            if not port.port:
                continue
            address = (port.host, port.port)
            if address in taken:
                text = f"{where} of broker {name} and {taken[address]} both want {port.host}:{port.port}"
                raise CannotStart(text, advice="Another cluster.brokers.NAME.port_offset.")
            taken[address] = f"{where} of broker {name}"


@final
class _Brokers:
    """The processes."""

    def __init__(self, names: tuple[str, ...], arguments: Sequence[str]) -> None:
        self._names: Final = names
        self._arguments: Final = arguments
        self._stopping: Final = asyncio.Event()
        self._running: Final[dict[str, asyncio.subprocess.Process]] = {}

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopping.set)
        loop.add_signal_handler(signal.SIGHUP, lambda: self._signal_all(signal.SIGHUP))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGHUP])
        keeping = [asyncio.create_task(self._keep_running(name)) for name in self._names]
        for name, task in zip(self._names, keeping, strict=True):
            watched(f"process of broker {name}", task, self._task_ended)
        tell_ready(f"runs replicas of {', '.join(self._names)}")
        await self._stopping.wait()
        self._signal_all(signal.SIGTERM)
        _, late = await asyncio.wait(keeping, timeout=STOP_S)
        if late:
            log.error("killed, as they have not stopped in %.0f s: %s", STOP_S, ", ".join(self._running))
            self._signal_all(signal.SIGKILL)
        await asyncio.gather(*keeping)

    async def _keep_running(self, name: str) -> None:
        """Start a process, and start it again when it ends, until all are to stop.

        One whose log needs a later release is not: that would change nothing.
        """
        loop = asyncio.get_running_loop()
        backoff = Backoff(first_s=RESTART_FIRST_S, max_s=RESTART_MAX_S)
        while not self._stopping.is_set():
            started_s = loop.time()
            how = await self._run_once(name)
            if self._stopping.is_set():
                return
            if how == NOT_AGAIN:
                log.error("the replica of broker %s has ended (%s), and is not started again", name, how)
                return
            delay_ms = backoff.next_ms(int((loop.time() - started_s) * 1000), random.random())  # no secret
            log.error("the replica of broker %s has ended (%s); it is started again in %d ms", name, how, delay_ms)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), delay_ms / 1000)

    def _task_ended(self, name: str, error: BaseException) -> None:
        """End all, and raise the error: whoever has started this process starts it again."""
        log.error("task %r has ended: %r", name, error)
        self._stopping.set()

    async def _run_once(self, name: str) -> str:
        """Run a process to its end; return how it has ended."""
        flags = ["-P"] if sys.flags.safe_path else []
        command = [sys.executable, *flags, "-m", "sluicegate", "serve", *self._arguments]
        environment = {key: value for key, value in os.environ.items() if key != ADDRESS_VARIABLE}
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                "--set",
                f"cluster.broker={name}",
                stdin=subprocess.PIPE,  # it ends with this process, see `supervised`
                env={**environment, SUPERVISED: "1"},
                start_new_session=True,  # Ctrl-C is for this process, which stops all in order
            )
        except OSError as error:  # no memory, or no more processes or files for this user
            return error.strerror or str(error)
        self._running[name] = process
        if self._stopping.is_set():  # meanwhile
            process.terminate()
        code = await process.wait()
        del self._running[name]
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

    def _signal_all(self, number: signal.Signals) -> None:
        for process in self._running.values():
            with suppress(ProcessLookupError):
                process.send_signal(number)
