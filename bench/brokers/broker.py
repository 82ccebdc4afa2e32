"""A measured broker: its process, directory and cores, its readiness, restart and stop.

The modules `gateway` and `known` define the brokers and their configuration. Each listens on 127.0.0.1 only,
on ports that were free, and leaves nothing behind.

Broker and load generator have separate cores. Otherwise some schedulers put both on one core while the other is idle
(on a two-core virtual machine: the broker at 60 %, the generator at 40 %), in one run and not in the next, and the wall
rate is half of what it is on two.
"""

import os
import random
import resource
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import ClassVar, Final

from bench.load.plan import LoadPlan
from bench.wire.connections import Address

START_TIMEOUT_S: Final = 120.0  # a million waiting messages are recovered within it
STOP_TIMEOUT_S: Final = 30.0
WAIT_S: Final = 0.002  # between two looks at a broker that starts: the resolution of recovery times
PORTS: Final = range(10_000, 18_000)  # below those that systems give to clients
LOG_TAIL_CHARACTERS: Final = 2000
_SYSTEM_FOLDERS: Final = "/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin"

Addresses = dict[str, Address]  # by protocol
Cores = frozenset[int]


class Traffic(Enum):
    """The kind of traffic of a case, for brokers with a setting for one kind."""

    BULK = "as much as fits"
    SINGLE = "each message is waited for"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """The requirements of a case for the start of a broker."""

    traffic: Traffic = Traffic.BULK
    tls: bool = False  # it needs a port with TLS as well
    persistent: bool = False  # messages are kept on the disk, also by brokers that otherwise run in memory
    executable: Path | None = None  # Sluicegate's; None for what this Python has installed


class BrokerError(Exception):
    """A broker did not start, did not become ready, cannot do what a case asks for, or ended."""


class Broker(ABC):
    """One running broker process."""

    kind: ClassVar[str]

    def __init__(self, directory: Path, cores: Cores, conditions: Conditions) -> None:
        self.directory = directory  # its data are there
        self._cores = cores
        self._conditions = conditions
        self._log = directory / "log"
        directory.mkdir(parents=True, exist_ok=True)
        self._process = self._spawn()
        self._addresses = self._wait_until(self._started_at)

    @classmethod
    @abstractmethod
    def is_installed(cls) -> bool:
        """Return whether this machine has the broker."""

    @abstractmethod
    def _command(self) -> list[str]:
        """Return the command to execute."""

    @abstractmethod
    def _started_at(self) -> Addresses | None:
        """Return the addresses for clients, None while the broker is not ready."""

    def _open_at(self) -> Addresses | None:
        """Return the addresses for clients, None while the broker does not accept clients."""
        return self._started_at()

    def prepare(self, plan: LoadPlan) -> LoadPlan:
        """Create the queues of a plan, and return the plan with this broker's addresses for them.

        A broker without queues delivers messages directly to the subscribers.
        """
        return plan

    def address_of(self, protocol: str) -> Address:
        """Return where clients of a protocol connect. Raises BrokerError when this broker does not speak it."""
        try:
            return self._addresses[protocol]
        except KeyError:
            raise BrokerError(f"{self.kind} does not speak {protocol} here") from None

    @property
    def pid(self) -> int:
        """The process whose tree is measured."""
        return self._process.pid

    def state_written_ns(self) -> int:
        """Return when the file was last changed that has all messages, beside a log of the last ones; 0 without one."""
        return 0

    def stop(self) -> None:
        """End the process and its children, by force if it takes too long."""
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_TIMEOUT_S)
        self.kill()

    def kill(self) -> None:
        """End the process and its children at once, as `kill -9` does."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def kill_when_saved(self) -> None:
        """Kill it when the disk has all that was confirmed: at most brokers it has."""
        self.kill()

    def restart(self, *, for_clients: bool = False) -> float:
        """Start again on the same directory, after `stop` or `kill`; return the seconds until it is ready.

        With `for_clients`, until the broker accepts clients, where that is earlier than full readiness.
        """
        begun_s = time.monotonic()
        self._process = self._spawn()
        self._addresses = self._wait_until(self._open_at if for_clients else self._started_at)
        return time.monotonic() - begun_s

    def _spawn(self) -> subprocess.Popen[bytes]:
        _raise_file_limit()
        command = self._command()
        with self._log.open("wb") as log, on_cores(self._cores):
            # A session of its own makes it a process group, so that `kill` reaches its children too.
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )

    def _wait_until(self, has_come: Callable[[], Addresses | None]) -> Addresses:
        deadline_s = time.monotonic() + START_TIMEOUT_S
        try:
            while time.monotonic() < deadline_s:
                addresses = has_come()
                if addresses is not None:
                    return addresses
                if self._process.poll() is not None:
                    raise BrokerError(f"{self.kind} ended while starting: {self._log_tail()}")
                time.sleep(WAIT_S)
            raise BrokerError(f"{self.kind} was not ready after {START_TIMEOUT_S} s: {self._log_tail()}")
        except BaseException:  # also for an interrupt: leave no process behind
            self.kill()
            raise

    def _log_tail(self) -> str:
        return self._log.read_text(errors="replace")[-LOG_TAIL_CHARACTERS:]


@contextmanager
def on_cores(cores: Cores) -> Iterator[None]:
    """Run the block on these cores; processes started in it stay there."""
    former = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, former)


def split_cores(cores: Cores, *, workers: int) -> tuple[Cores, Cores]:
    """Return the cores of the broker and of the generator: one for each worker, and at least one for the broker."""
    if len(cores) < 2:
        return cores, cores
    ordered = sorted(cores)
    first = max(1, len(ordered) - workers)
    return frozenset(ordered[:first]), frozenset(ordered[first:])


def found(program: str) -> str | None:
    """Return the path of a system program, also from folders that only root has on its PATH."""
    for folder in _SYSTEM_FOLDERS.split(":"):
        path = Path(folder, program)
        if path.is_file() and os.access(path, os.X_OK):
            return str(path)
    return None


def free_ports(count: int) -> list[int]:
    """Return distinct free ports of 127.0.0.1.

    The system assigns none of them to clients, so no client takes one before the broker listens on it.
    """
    with ExitStack() as probes:
        ports: list[int] = []
        for port in random.sample(PORTS, len(PORTS)):
            probe = probes.enter_context(socket.socket())
            with suppress(OSError):
                probe.bind(("127.0.0.1", port))
                ports.append(port)
            if len(ports) == count:
                return ports
    raise BrokerError(f"{count} ports are not free")


def accept_connections(addresses: Addresses) -> bool:
    """Return whether all of these addresses accept connections."""
    try:
        for address in addresses.values():
            socket.create_connection(address, timeout=1.0).close()
    except OSError:
        return False
    return True


def modified_ns(path: Path) -> int:
    """Return when a file was last written to; 0 when there is none."""
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def make_certificate(directory: Path) -> tuple[Path, Path]:
    """Return a new self-signed certificate of 127.0.0.1, and its key."""
    certificate, key = directory / "certificate.pem", directory / "key.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=127.0.0.1"
    try:
        subprocess.run(
            [*command.split(), "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise BrokerError(f"no certificate could be made: {error}") from error
    return certificate, key


def _raise_file_limit() -> None:
    """Raise the file limit of this process, and of the brokers it starts, to the system's maximum."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
