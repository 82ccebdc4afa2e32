"""The brokers that are compared: how each is started, made ready, restarted and stopped.

Each runs as its own process with a directory of its own and ports of its own, and listens on 127.0.0.1 only.
"""

import contextlib
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from enum import Enum
from pathlib import Path
from typing import Final, final

from bench.load_plan import AMQP, FLOW
from bench.mqtt_load import Address
from bench.placement import Cores, on_cores

START_TIMEOUT_S: Final = 120.0  # a million waiting messages are recovered within it
STOP_TIMEOUT_S: Final = 30.0
HTTP_TIMEOUT_S: Final = 10.0
WAIT_S: Final = 0.002  # between two looks at a broker that starts: the resolution of recovery times
LOG_TAIL_CHARACTERS: Final = 2000

READY_PATH: Final = "/health/ready"
SLUICEGATE_SETTINGS: Final = (
    "listeners.mqtt.port=0",
    "listeners.mqtt_websocket.enabled=false",
    "listeners.amqp.port=0",
    "listeners.flow.port=0",
    "listeners.amqp.max_connections=100000",
    "listeners.http.enabled=false",
    "listeners.mqtt.max_connections=100000",
    "admin.port=0",
)
_MQTT_URL: Final = re.compile(r"mqtt://127\.0\.0\.1:(\d+)")
_AMQP_URL: Final = re.compile(r"amqp://127\.0\.0\.1:(\d+)")
_FLOW_URL: Final = re.compile(r"flow://127\.0\.0\.1:(\d+)")
_ADMIN_URL: Final = re.compile(r"http://127\.0\.0\.1:\d+")

# Nothing limits mosquitto but its own speed: no persistence, no limit on what is queued or in flight (20 and 1000 in
# flight were no faster with QoS 1). Nagle's algorithm, its default, joins its small writes: 1.2 to 1.7 times the
# messages per CPU-second in bulk, but 0.8 of them when each message is waited for. So it gets the better of the two.
_MOSQUITTO_CONFIGURATION: Final = """\
listener {port} 127.0.0.1
allow_anonymous true
persistence false
max_queued_messages 0
max_inflight_messages 0
set_tcp_nodelay {no_delay}
log_type error
"""


# Debian's own script changes to another user, who may not write to our directory; this one stands behind it.
_RABBITMQ_SERVER: Final = "/usr/lib/rabbitmq/bin/rabbitmq-server"
_RABBITMQ_CONFIGURATION: Final = """\
listeners.tcp.1 = 127.0.0.1:{port}
loopback_users = none
log.console = false
"""


class Traffic(Enum):
    """What a case will send, for a broker with a setting that suits one kind and not the other."""

    BULK = "as much as fits"
    SINGLE = "each message is waited for"


class BrokerError(Exception):
    """A broker did not start, did not become ready, or ended."""


class Broker(ABC):
    """One running broker process."""

    kind: str

    def __init__(self, directory: Path, cores: Cores) -> None:
        self._directory = directory
        self._cores = cores
        self._log = directory / "log"
        directory.mkdir(parents=True, exist_ok=True)
        self._process = self._spawn()
        self.address = self._wait_until_started()

    def address_of(self, protocol: str) -> Address:
        """Return where clients of a protocol connect: `address`, unless the broker has ports for several."""
        return self.address

    @property
    def pid(self) -> int:
        """The process whose tree is measured."""
        return self._process.pid

    def stop(self) -> None:
        """End the process, by force if it takes too long."""
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End the process and its children at once, as `kill -9` does."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def restart(self) -> float:
        """Start again on the same directory, after `stop` or `kill`; return the seconds until it is ready."""
        begun_s = time.monotonic()
        self._process = self._spawn()
        self.address = self._wait_until_started()
        return time.monotonic() - begun_s

    @abstractmethod
    def _command(self) -> list[str]:
        """Return what to execute."""

    @abstractmethod
    def _started_at(self) -> Address | None:
        """Return where MQTT clients connect, None while the broker is not ready."""

    def _spawn(self) -> subprocess.Popen[bytes]:
        _raise_file_limit()
        command = self._command()
        with self._log.open("wb") as log, on_cores(self._cores):
            # A session of its own makes it a process group, so that `kill` reaches its children too.
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )

    def _wait_until_started(self) -> Address:
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline_s:
            address = self._started_at()
            if address is not None:
                return address
            if self._process.poll() is not None:
                raise BrokerError(f"{self.kind} ended while starting: {self._log_tail()}")
            time.sleep(WAIT_S)
        self.kill()
        raise BrokerError(f"{self.kind} was not ready after {START_TIMEOUT_S} s: {self._log_tail()}")

    def _log_tail(self) -> str:
        return self._log.read_text(errors="replace")[-LOG_TAIL_CHARACTERS:]


@final
class Mosquitto(Broker):
    """The peer: Eclipse mosquitto, found on the path."""

    kind = "mosquitto"

    def __init__(self, directory: Path, cores: Cores, traffic: Traffic) -> None:
        self._no_delay = "true" if traffic is Traffic.SINGLE else "false"
        self._port = 0
        super().__init__(directory, cores)

    def _command(self) -> list[str]:
        self._port = _free_port()
        configuration = self._directory / "mosquitto.conf"
        configuration.write_text(_MOSQUITTO_CONFIGURATION.format(port=self._port, no_delay=self._no_delay))
        found = shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
        if found is None:
            raise BrokerError("mosquitto is not installed")
        return [found, "-c", str(configuration)]

    def _started_at(self) -> Address | None:
        address = ("127.0.0.1", self._port)
        try:
            socket.create_connection(address, timeout=1.0).close()
        except OSError:
            return None
        return address


@final
class Sluicegate(Broker):
    """The broker under test, as an operator starts it."""

    kind = "sluicegate"

    def __init__(self, directory: Path, cores: Cores, executable: Path | None) -> None:
        self._executable = executable or Path(sys.executable).with_name("sluicegate")
        self.admin_url = ""
        self._addresses: dict[str, Address] = {}  # of protocols other than MQTT
        super().__init__(directory, cores)

    def address_of(self, protocol: str) -> Address:
        """Return where clients of a protocol connect."""
        return self._addresses.get(protocol, self.address)

    def create_queue(self, name: str, topic_filter: str | None, **attributes: str | int) -> None:
        """Make a durable queue, which collects what is published to `topic_filter` if there is one."""
        subscriptions = [topic_filter] if topic_filter else []
        body = json.dumps({"name": name, "subscriptions": subscriptions, **attributes}).encode()
        request = urllib.request.Request(f"{self.admin_url}/queues", data=body, method="POST")
        request.add_header("Content-Type", "application/json")
        try:
            urllib.request.urlopen(request, timeout=HTTP_TIMEOUT_S).close()
        except urllib.error.HTTPError as refusal:
            text = refusal.read()[:LOG_TAIL_CHARACTERS].decode(errors="replace")
            raise BrokerError(f"queue {name} was refused: {refusal.code} {text}") from refusal

    def _command(self) -> list[str]:
        command = [str(self._executable), "serve", "--data", str(self._directory / "data")]
        for setting in SLUICEGATE_SETTINGS:
            command += ["--set", setting]
        return command

    def _started_at(self) -> Address | None:
        lines = self._log.read_text(errors="replace")
        mqtt = _MQTT_URL.search(lines)
        amqp = _AMQP_URL.search(lines)
        flow = _FLOW_URL.search(lines)
        admin = _ADMIN_URL.search(lines)
        if mqtt is None or amqp is None or flow is None or admin is None:
            return None
        self.admin_url = admin.group()
        self._addresses = {AMQP: ("127.0.0.1", int(amqp.group(1))), FLOW: ("127.0.0.1", int(flow.group(1)))}
        with contextlib.suppress(OSError):  # refused, reset or a status other than 2xx: not ready
            urllib.request.urlopen(self.admin_url + READY_PATH, timeout=HTTP_TIMEOUT_S).close()
            return "127.0.0.1", int(mqtt.group(1))
        return None


@final
class RabbitMq(Broker):
    """The peer for AMQP 1.0: RabbitMQ 3 of the distribution with its plugin, on data of its own."""

    kind = "rabbitmq"

    def __init__(self, directory: Path, cores: Cores) -> None:
        self._port = 0
        super().__init__(directory, cores)

    def _command(self) -> list[str]:
        self._port = _free_port()
        if not Path(_RABBITMQ_SERVER).exists():
            raise BrokerError("rabbitmq-server is not installed")
        (self._directory / "plugins").write_text("[rabbitmq_amqp1_0].")
        (self._directory / "rabbitmq.conf").write_text(_RABBITMQ_CONFIGURATION.format(port=self._port))
        settings = {
            "HOME": self._directory,  # of the cookie that its processes know each other by
            "RABBITMQ_NODENAME": f"bench{self._port}@localhost",
            "RABBITMQ_MNESIA_BASE": self._directory / "mnesia",
            "RABBITMQ_LOG_BASE": self._directory / "logs",
            "RABBITMQ_ENABLED_PLUGINS_FILE": self._directory / "plugins",
            "RABBITMQ_CONFIG_FILE": self._directory / "rabbitmq.conf",
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_DIST_PORT": _free_port(),
            "ERL_EPMD_PORT": _free_port(),
        }
        # Erlang's port mapper would become a daemon that outlives everything; this one is of our process group.
        script = 'epmd -port "$ERL_EPMD_PORT" & exec "$0"'
        return ["env", *(f"{name}={value}" for name, value in settings.items()), "sh", "-c", script, _RABBITMQ_SERVER]

    def stop(self) -> None:
        """End the server, and then the port mapper."""
        super().stop()
        self.kill()

    def _started_at(self) -> Address | None:
        return ("127.0.0.1", self._port) if "completed with" in self._log_tail() else None


def start(kind: str, directory: Path, cores: Cores, *, traffic: Traffic, executable: Path | None) -> Broker:
    """Start a broker by the name of its kind; `executable` is Sluicegate's, None for the one beside this Python."""
    if kind == Mosquitto.kind:
        return Mosquitto(directory, cores, traffic)
    if kind == Sluicegate.kind:
        return Sluicegate(directory, cores, executable)
    if kind == RabbitMq.kind:
        return RabbitMq(directory, cores)
    raise BrokerError(f"unknown broker {kind!r}: {Mosquitto.kind}, {RabbitMq.kind} or {Sluicegate.kind}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _raise_file_limit() -> None:
    """Let this process and the brokers it starts hold as many sockets as the system allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
