"""A machine with several brokers, as a test sees it: one gateway process, and the broker processes below it."""

import os
import signal
from contextlib import suppress
from pathlib import Path

from support.processes.gateway import STOP_S, GatewayProcess, wait_until

RETIRED_S = 90
BACK_S = 90  # for a broker that was killed to take traffic again, on a busy machine


class MachineProcess(GatewayProcess):
    """A `sluicegate serve --brokers N`."""

    def __init__(self, folder: Path, count: int, settings: dict[str, object] | None = None) -> None:
        super().__init__(folder, {"brokers": count, **(settings or {})})
        self.count = count

    def up_count(self) -> float:
        """Return how many brokers take traffic."""
        return self.metric("sluicegate_broker_up")

    def broker_folders(self) -> list[int]:
        """Return the numbers of the brokers that have a folder of their own in the data folder."""
        folder = self.data / "brokers"
        return sorted(int(each.name) for each in folder.iterdir() if each.name.isdecimal()) if folder.is_dir() else []

    def until_retired(self, count: int) -> None:
        """Wait until so many brokers are left, with all that there was."""
        wait_until(
            lambda: self.broker_folders() == list(range(2, count + 1)) and self.up_count() == count,
            within_s=RETIRED_S,
            what=f"{count} brokers",
        )

    def payloads(self, queue: str) -> list[str]:
        """Return the payloads of a queue's messages, oldest first."""
        answer = self._get(f"/queues/{queue}/messages", limit="1000").raise_for_status()
        return [str(each["payload"]) for each in answer.json()["messages"]]

    def kill_supervisor(self) -> None:
        """Kill the supervisor alone: its brokers notice that it is gone."""
        process = self._running()
        process.kill()
        process.wait(STOP_S)
        self._ended()

    def broker_pid(self, number: int) -> int:
        """Return the process of a broker that runs: the one that has its spool open."""
        for pid in self.broker_pids():
            if any(self._broker_of(path) == number for path in _open_files(pid)):
                return pid
        raise AssertionError(f"broker {number} is not running")

    def _broker_of(self, path: Path) -> int:
        """Return the broker that has a file; 0: it is no broker's."""
        if not path.is_relative_to(self.data):
            return 0
        below = path.relative_to(self.data).parts
        return int(below[1]) if below[0] == "brokers" else 1

    def kill_broker(self, pid: int) -> None:
        """Kill one broker, and wait until as many as before take traffic again."""
        restarts = self.metric("sluicegate_broker_restarts_total")
        os.kill(pid, signal.SIGKILL)
        wait_until(
            lambda: self.metric("sluicegate_broker_restarts_total") > restarts and self.up_count() == self.count,
            within_s=BACK_S,
            what="a broker that comes back",
        )


def _open_files(pid: int) -> list[Path]:
    found = []
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):  # it is closed by now
            found.append(each.readlink())
    return found


def is_running(pid: int) -> bool:
    """Return whether there is a process, and no zombie of one."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
