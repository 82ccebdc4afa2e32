"""A machine with several brokers, as a test sees it: one gateway process, and the broker processes below it."""

import os
import signal
from pathlib import Path

from support.processes.gateway import STOP_S, GatewayProcess, wait_until

BACK_S = 45  # for a broker that was killed to take traffic again, on a busy machine


class MachineProcess(GatewayProcess):
    """A `sluicegate serve --brokers N`."""

    def __init__(self, folder: Path, count: int, settings: dict[str, object] | None = None) -> None:
        super().__init__(folder, {"brokers": count, **(settings or {})})
        self.count = count

    def up_count(self) -> float:
        """Return how many brokers take traffic."""
        return self.metric("sluicegate_broker_up")

    def kill_supervisor(self) -> None:
        """Kill the supervisor alone: its brokers notice that it is gone."""
        process = self._running()
        process.kill()
        process.wait(STOP_S)
        self._ended()

    def kill_broker(self, pid: int) -> None:
        """Kill one broker, and wait until as many as before take traffic again."""
        restarts = self.metric("sluicegate_broker_restarts_total")
        os.kill(pid, signal.SIGKILL)
        wait_until(
            lambda: self.metric("sluicegate_broker_restarts_total") > restarts and self.up_count() == self.count,
            within_s=BACK_S,
            what="a broker that comes back",
        )


def is_running(pid: int) -> bool:
    """Return whether there is a process, and no zombie of one."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
