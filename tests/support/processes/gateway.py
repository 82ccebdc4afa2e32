"""A real `sluicegate serve` in a process of its own, which tests start, kill, stop and start again.

It runs with this interpreter, and so with the installation under test. At the end the gateway's standard error is read:
a traceback in it fails the test, whatever the test checks.
"""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from urllib.parse import quote, urlsplit

import httpx

from sluicegate.messaging.message.vpn import DEFAULT_VPN
from sluicegate.testing.ports import SECTIONS, free_port
from support.http.plain import HTTP
from support.processes.programs import running

START_S: Final = 120  # a cold start with a large spool, on a busy machine
STOP_S: Final = 90  # clients get 10 s to let go, the rest is the store's
COMMAND_S: Final = 120
REQUEST_S: Final = 30
LOOPBACK: Final = "127.0.0.1"
# `make test-brokers` sets it: how many brokers every gateway has whose test does not say so.
BROKERS_VARIABLE: Final = "SLUICEGATE_TEST_BROKERS"
BROKERS: Final = {"brokers": count} if (count := os.environ.get(BROKERS_VARIABLE)) else {}
TALKING_TO_THE_ADMIN_PORT: Final = ("queue", "bridge", "link", "actors", "backup", "bench", "events", "explain", "show")
PYTHON: Final = (sys.executable, "-P", "-m", "sluicegate")  # -P: the working directory must not hide what is installed

# For one that a test starts by hand: the default ports may be those of a gateway that runs beside the tests.
FREE_PORTS: Final = tuple(
    f"--set={name}.port=0"
    for name in ("admin", *[f"listeners.{each}" for each in ("mqtt", "mqtt_websocket", "amqp", "flow", "http")])
)
OPEN_WHEN_ENABLED: Final = (
    "mqtt_tls",
    "mqtt_websocket_tls",
    "amqp_tls",
    "amqp_websocket",
    "amqp_websocket_tls",
    "flow_tls",
    "http_tls",
    "health",
)
MQTT_SCHEMES: Final = {
    "mqtt": "mqtt",
    "mqtts": "mqtt_tls",
    "ws": "mqtt_websocket",
    "wss": "mqtt_websocket_tls",
}


class GatewayProcess:
    """One gateway on its data folder. Ports are chosen at the first start and kept over restarts."""

    def __init__(
        self, folder: Path, settings: dict[str, object] | None = None, *, config_file: Path | None = None
    ) -> None:
        self.folder = folder
        self.config_file = config_file
        self.settings = {**BROKERS, **(settings or {})}
        self.stderr_file = folder / "stderr.log"
        self.ports: dict[str, int] = {}  # by listener, and `admin`
        self.host = LOOPBACK  # on which it listens
        self.begins_with: list[str] = []  # a program that starts it elsewhere, such as in a network of its own
        self._process: subprocess.Popen[bytes] | None = None

    # --- where it is ---

    @property
    def data(self) -> Path:
        """The data folder."""
        return self.folder / "data"

    @property
    def backups(self) -> Path:
        """Where backups go."""
        return self.folder / "backups"

    @property
    def mqtt_port(self) -> int:
        return self.ports["mqtt"]

    @property
    def amqp_port(self) -> int:
        return self.ports["amqp"]

    @property
    def amqps_port(self) -> int:
        return self.ports["amqp_tls"]

    @property
    def tls_port(self) -> int:
        return self.ports["mqtt_tls"]

    @property
    def ws_port(self) -> int:
        return self.ports["mqtt_websocket"]

    @property
    def wss_port(self) -> int:
        return self.ports["mqtt_websocket_tls"]

    @property
    def admin_url(self) -> str:
        return f"http://{self.host}:{self.ports['admin']}"

    @property
    def health_url(self) -> str:
        """The port for probes and scrapers, where it is enabled."""
        return f"http://{self.host}:{self.ports['health']}"

    @property
    def http_url(self) -> str:
        """Where messages are POSTed."""
        return f"http://{self.host}:{self.ports['http']}"

    @property
    def flow_url(self) -> str:
        """Where clients of the flow protocol connect."""
        return f"flow://{self.host}:{self.ports['flow']}"

    def mqtt_url(self, scheme: str) -> str:
        """The address for MQTT clients that take a URL."""
        path = "/mqtt" if scheme.startswith("ws") else ""
        return f"{scheme}://{self.host}:{self.ports[MQTT_SCHEMES[scheme]]}{path}"

    @property
    def pid(self) -> int:
        return self._running().pid

    def broker_pids(self) -> list[int]:
        """The processes of the brokers, in the order in which they were started. One broker has none of its own."""
        try:
            children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        except OSError:  # it has ended
            return []
        return [int(each) for each in children]

    @property
    def stderr(self) -> str:
        """Everything written to standard error, over all starts."""
        return self.stderr_file.read_text() if self.stderr_file.exists() else ""

    # --- start and end ---

    def start(self) -> None:
        """Start, and return when the gateway is ready for traffic."""
        assert self._process is None, "it runs already"
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.stderr_file.open("ab") as stderr:
            self._process = subprocess.Popen(self._command(), stdout=subprocess.PIPE, stderr=stderr)
        try:
            self._read_endpoints()
            wait_until(self.is_ready, within_s=START_S, what="/health/ready")
        except BaseException:
            self.kill9()
            raise

    def has_ended(self) -> bool:
        """Return whether the process has ended by itself; then it can be started again."""
        process = self._process
        if process is None or process.poll() is None:
            return False
        self._ended()
        return True

    def is_ready(self) -> bool:
        """Ask /health/ready."""
        return HTTP.get(f"{self.admin_url}/health/ready", timeout=START_S).status_code == 200

    def kill9(self) -> None:
        """Kill the process, and its brokers if it has several, as a crash of the machine would."""
        process = self._running()
        if "brokers" in self.settings:
            process.send_signal(signal.SIGSTOP)  # it starts none again meanwhile
            for pid in self.broker_pids():
                os.kill(pid, signal.SIGKILL)
        process.kill()
        process.wait(STOP_S)
        self._ended()

    def stop(self) -> None:
        """Ask the process to stop, and check that it does so in time and reports success."""
        process = self._running()
        process.send_signal(signal.SIGTERM)
        exit_code = self.wait_for_exit(STOP_S)
        assert exit_code == 0, f"exit code {exit_code} after SIGTERM\n{self.stderr[-4000:]}"

    def restart(self) -> None:
        """Stop in good order and start again."""
        self.stop()
        self.start()

    def wait_for_exit(self, within_s: float) -> int:
        """Wait for the end; return the exit code. One that does not come in time is brought about, and raised."""
        try:
            exit_code = self._running().wait(within_s)
        except BaseException:
            self.kill9()
            raise
        self._ended()
        return exit_code

    # --- talking to it ---

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the process."""
        self._running().send_signal(number)

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a `sluicegate` command to its end, against this gateway when it is one that talks to a gateway."""
        return subprocess.run(
            [*PYTHON, *arguments, *self._address_for(arguments)], capture_output=True, text=True, timeout=COMMAND_S
        )

    def running_command(
        self, *arguments: str, stdin: int | None = None
    ) -> AbstractContextManager["subprocess.Popen[str]"]:
        """Run a command that does not end by itself, with its output in a pipe, for the length of a `with` block."""
        return running([*PYTHON, *arguments, *self._address_for(arguments)], stdin=stdin)

    def create_queue(self, name: str, *, vpn: str = DEFAULT_VPN, **attributes: object) -> None:
        """Create a queue over the admin port."""
        body = {"name": name, **attributes}
        url = f"{self.admin_url}/queues"
        HTTP.post(url, params={"vpn": vpn}, json=body, timeout=REQUEST_S).raise_for_status()

    def deletes_queue(self, name: str) -> bool:
        """Delete a queue over the admin port; return whether that was done: its broker may be away."""
        return HTTP.delete(f"{self.admin_url}/queues/{quote(name, safe='')}", timeout=REQUEST_S).is_success

    def queue(self, name: str) -> dict[str, object]:
        """Return the admin port's view of a queue."""
        return self._get(f"/queues/{quote(name, safe='')}").json()  # type: ignore[no-any-return]  # an object, by the API

    def held_count(self, name: str) -> int:
        """Return the number of messages in a queue, in flight or not."""
        view = self.queue(name)
        ready, unacked = view["ready_count"], view["unacked_count"]
        assert isinstance(ready, int)
        assert isinstance(unacked, int)
        return ready + unacked

    def leads_to(self, topic: str) -> list[str]:
        """Return the filters of the subscriptions that a message on the topic would go to now."""
        explained = self._get("/explain/publish", topic=topic).json()
        return [destination["filter"] for destination in explained["destinations"]]

    def metric(self, name: str, **labels: str) -> float:
        """Return one sample of /metrics; samples of one name whose labels match are added up."""
        total = 0.0
        for line in self._get("/metrics").text.splitlines():
            series, _, value = line.rpartition(" ")
            if series.partition("{")[0] == name and all(f'{key}="{label}"' in series for key, label in labels.items()):
                total += float(value)
        return total

    # --- as a context ---

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            if error is None:
                self.stop()
            else:
                self.kill9()
        if error is None:
            assert "Traceback" not in self.stderr, self.stderr[-8000:]
        elif self.stderr:
            error.add_note(f"the gateway wrote to standard error:\n{self.stderr[-8000:]}")

    # --- inside ---

    def _running(self) -> "subprocess.Popen[bytes]":
        assert self._process is not None, "it does not run"
        return self._process

    def _get(self, path: str, **parameters: str) -> httpx.Response:
        return HTTP.get(self.admin_url + path, params=parameters, timeout=REQUEST_S).raise_for_status()

    def _ended(self) -> None:
        process, self._process = self._process, None
        assert process is not None
        assert process.stdout is not None
        process.stdout.close()

    def _command(self) -> list[str]:
        settings: dict[str, object] = {"backup.path": self.backups}
        for name, section in SECTIONS.items():
            if name not in OPEN_WHEN_ENABLED or self.settings.get(f"{section}.enabled"):
                if name not in self.ports:
                    self.ports[name] = free_port()
                settings[f"{section}.port"] = self.ports[name]
                if self.host != LOOPBACK:
                    settings[f"{section}.host"] = self.host
        settings |= self.settings
        texts = {
            path: str(value).lower() if isinstance(value, bool) else str(value) for path, value in settings.items()
        }
        options = [part for path, text in texts.items() for part in ("--set", f"{path}={text}")]
        file = [] if self.config_file is None else ["--config", str(self.config_file)]
        return [*self.begins_with, *PYTHON, "serve", *file, "--data", str(self.data), *options]

    def _read_endpoints(self) -> None:
        """Read the announcement, and check that it names the ports that were asked for."""
        process = self._running()
        assert process.stdout is not None
        output, deadline = b"", time.monotonic() + START_S
        while b"\n  admin " not in output or not output.endswith(b"\n"):
            readable, _, _ = select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            piece = os.read(process.stdout.fileno(), 65536) if readable else b""
            if not piece:
                raise AssertionError(f"it did not start (exit code {process.poll()}):\n{output.decode()}{self.stderr}")
            output += piece
        announced = [line.split() for line in output.decode().splitlines() if "://" in line]
        ports = {words[0]: urlsplit(words[1]).port for words in announced if len(words) == 2}
        assert ports == self.ports

    def _address_for(self, arguments: tuple[str, ...]) -> list[str]:
        if arguments[0] in ("pub", "sub"):
            return ["--port", str(self.mqtt_port)]
        return ["--url", self.admin_url] if arguments[0] in TALKING_TO_THE_ADMIN_PORT else []


def wait_until(condition: Callable[[], bool], *, within_s: float, what: str) -> None:
    """Check a condition repeatedly, where no event reports it to other processes. Raises AssertionError: `what`."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {within_s} s for {what}"
        select.select([], [], [], 0.02)


@contextmanager
def gateway(folder: Path, **settings: object) -> Iterator[GatewayProcess]:
    """Run a gateway for the length of a `with` block. In the settings' names `__` stands for a dot."""
    with GatewayProcess(folder, {name.replace("__", "."): value for name, value in settings.items()}) as process:
        yield process
