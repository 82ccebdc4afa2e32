"""Brokers of other makers, as processes of a test: each listens on ports of 127.0.0.1 that stay the same, and may be
killed and started again on its data.

`scripts/bridge-needs` installs them.
"""

import os
import shutil
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, TypeVar, final

from sluicegate.testing.ports import free_port
from support.http.plain import HTTP
from support.processes.foreign_programs import SYSTEM_PATH

ROOT = Path(__file__).resolve().parents[3]
START_TIMEOUT_S = 90
STOP_TIMEOUT_S = 20
AMQP_HEADER = b"AMQP\x03\x01\x00\x00"  # with SASL


AnyBroker = TypeVar("AnyBroker", bound="ForeignBroker")


class ForeignBroker(ABC):
    """A broker's process. `amqp_port`: of AMQP 1.0, `mqtt_port`: of MQTT, for those that speak it."""

    name: ClassVar[str]
    survives_kills: ClassVar[bool] = True  # with all that it has confirmed
    keeps_order: ClassVar[bool] = True  # also of what it delivers again
    has_qos_2: ClassVar[bool] = True

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.amqp_port, self.mqtt_port, *self._ports = (free_port() for _ in range(4))
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    @abstractmethod
    def is_installed(cls) -> bool:
        """Return whether this machine has it."""

    @abstractmethod
    def _command(self) -> tuple[list[str], dict[str, str]]:
        """Return the command, and what is added to the environment."""

    def new_queue(self, name: str) -> str:
        """Return the AMQP address of a durable queue, which is created now or when a link to the address is made."""
        return self.known_address(name)

    def known_address(self, name: str) -> str:
        """Return the AMQP address of a queue that is there."""
        return name

    def credentials(self, folder: Path) -> str:
        """Return how a bridge signs in, as lines of its configuration; files go to the folder."""
        return ""

    def start(self) -> None:
        """Start it, and wait until it answers clients."""
        command, environment = self._command()
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                env={**os.environ, **environment},
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while not self._is_ready():
            assert self._process.poll() is None, f"{self.name} has ended: {self.log()}"
            assert time.monotonic() < deadline_s, f"{self.name} did not start within {START_TIMEOUT_S} s: {self.log()}"
            time.sleep(0.1)

    def kill(self) -> None:
        """End it at once, and what it has started."""
        self._signal(signal.SIGKILL)

    def stop(self) -> None:
        """End it as its operator would."""
        self._signal(signal.SIGTERM)
        self.kill()

    def end(self) -> None:
        """End it for good."""
        self.kill()

    def log(self) -> str:
        """Return the end of what it has printed."""
        return (self.directory / "log").read_text(errors="replace")[-2000:]

    def _signal(self, number: int) -> None:
        process = self._process
        if process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_TIMEOUT_S)

    def _is_ready(self) -> bool:
        """Return whether it answers a client of AMQP."""
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.amqp_port), 1) as probe:
            probe.settimeout(2)
            probe.sendall(AMQP_HEADER)
            return probe.recv(4) == AMQP_HEADER[:4]
        return False

    def _listens(self) -> bool:
        """Return whether clients of MQTT reach it."""
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.mqtt_port), 1):
            return True
        return False


@final
class Mosquitto(ForeignBroker):
    """mosquitto with persistence: it saves what it has when it is stopped, and every half an hour. It has no AMQP.

    `access` are the lines of its configuration that say who may connect.
    """

    name = "mosquitto"
    survives_kills = False

    def __init__(self, directory: Path, *, access: str = "allow_anonymous true") -> None:
        super().__init__(directory)
        self.configuration = directory / "mosquitto.conf"
        self.configuration.write_text(
            f"user root\nlistener {self.mqtt_port} 127.0.0.1\n{access}\n"
            f"persistence true\npersistence_location {directory}/\nmax_queued_messages 0\n"
        )

    @classmethod
    def is_installed(cls) -> bool:
        """Return whether this machine has it."""
        return shutil.which("mosquitto", path=SYSTEM_PATH) is not None

    @property
    def url(self) -> str:
        """Where a bridge finds it."""
        return f"mqtt://127.0.0.1:{self.mqtt_port}"

    def _command(self) -> tuple[list[str], dict[str, str]]:
        return [str(shutil.which("mosquitto", path=SYSTEM_PATH)), "-c", str(self.configuration)], {}

    def _is_ready(self) -> bool:
        return self._listens()


class RabbitMq(ForeignBroker):
    """RabbitMQ with its management API. Its user is `guest`, with that password."""

    has_qos_2 = False
    _ROOT: ClassVar[Path]  # the root of the system that it is installed in
    _PLUGINS: ClassVar[str]
    _SERVER = "usr/lib/rabbitmq/bin/rabbitmq-server"  # Debian's own script changes to another user

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._admin_port = free_port()

    @classmethod
    def is_installed(cls) -> bool:
        """Return whether this machine has it."""
        return (cls._ROOT / cls._SERVER).exists()

    def manage(self, method: str, path: str, document: object = None) -> Any:
        """Ask its management API; `path` is what follows `/api`. Returns the answer, if there is one."""
        url = f"http://127.0.0.1:{self._admin_port}/api{path}"
        answer = HTTP.request(method, url, json=document, auth=("guest", "guest"))
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def credentials(self, folder: Path) -> str:
        """Return how a bridge signs in."""
        password = folder / "rabbitmq-password"
        password.write_text("guest\n")
        return f"username: guest\npassword_file: {password}"

    def _settings(self) -> str:
        """Return the lines of its configuration."""
        return (
            f"listeners.tcp.1 = 127.0.0.1:{self.amqp_port}\n"
            f"mqtt.listeners.tcp.1 = 127.0.0.1:{self.mqtt_port}\nlog.console = false\n"
            f"management.tcp.port = {self._admin_port}\nmanagement.tcp.ip = 127.0.0.1\n"
        )

    def _command(self) -> tuple[list[str], dict[str, str]]:
        node, mapper = self._ports
        (self.directory / "plugins").write_text(f"[{self._PLUGINS}].")
        (self.directory / "rabbitmq.conf").write_text(self._settings())
        inside = Path("/") / self.directory.relative_to(self._ROOT)
        settings = {
            "HOME": str(inside),
            "RABBITMQ_NODENAME": f"bridged{self.amqp_port}@localhost",
            "RABBITMQ_MNESIA_BASE": str(inside / "mnesia"),
            "RABBITMQ_LOG_BASE": str(inside / "logs"),
            "ERL_CRASH_DUMP": str(inside / "erl_crash.dump"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(inside / "plugins"),
            "RABBITMQ_CONFIG_FILE": str(inside / "rabbitmq.conf"),
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_DIST_PORT": str(node),
            "ERL_EPMD_PORT": str(mapper),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        }
        # Erlang's port mapper would outlive everything; this one is of our process group.
        return ["sh", "-c", f"epmd -port {mapper} & exec /{self._SERVER}"], settings


@final
class RabbitMq3(RabbitMq):
    """RabbitMQ 3 of this machine, with its plugin for AMQP 1.0."""

    name = "rabbitmq-3"
    _ROOT = Path("/")
    _PLUGINS = "rabbitmq_amqp1_0, rabbitmq_mqtt, rabbitmq_management"

    def new_queue(self, name: str) -> str:
        """Return the AMQP address of a queue, which is created when a link is made: durable, if its terminus is."""
        return f"/queue/{name}"

    def known_address(self, name: str) -> str:
        """Return the AMQP address of a queue that is there."""
        return f"/amq/queue/{name}"


@final
class RabbitMq4(RabbitMq):
    """RabbitMQ 4, of a later Debian, which has a folder as its root. It speaks AMQP 1.0 and MQTT 5 itself."""

    name = "rabbitmq-4"
    _ROOT = ROOT / "build" / "rabbitmq4"
    _PLUGINS = "rabbitmq_mqtt, rabbitmq_management"

    def __init__(self, directory: Path) -> None:
        super().__init__(self._ROOT / "srv" / f"{directory.name}-{os.getpid()}")  # it sees nothing outside of its root

    def new_queue(self, name: str) -> str:
        """Create a durable queue, and return its AMQP address."""
        self.manage("PUT", f"/queues/%2F/{name}", {"durable": True})
        return self.known_address(name)

    def known_address(self, name: str) -> str:
        """Return the AMQP address of a queue that is there."""
        return f"/queues/{name}"

    def end(self) -> None:
        """End it, and remove its data."""
        super().end()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _settings(self) -> str:
        # It has no /proc to ask about memory.
        return (
            f"{super()._settings()}"
            "vm_memory_calculation_strategy = erlang\ntotal_memory_available_override_value = 2GB\n"
        )

    def _command(self) -> tuple[list[str], dict[str, str]]:
        command, settings = super()._command()
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        return ["chroot", str(self._ROOT), *command], {**settings, "PATH": path}


@final
class ActiveMq(ForeignBroker):
    """ActiveMQ 6 with AMQP 1.0 and its store on the disk. It admits everybody.

    With `configuration`, the text of an activemq.xml, it is as that says; `{data}` and `{amqp_port}` are filled in.
    """

    name = "activemq"
    _JARS = ROOT / "build" / "activemq"

    def __init__(self, directory: Path, *, configuration: str = "") -> None:
        super().__init__(directory)
        self._configuration = configuration

    @property
    def configuration_file(self) -> Path:
        """The activemq.xml, where it has one."""
        return self.directory / "activemq.xml"

    @classmethod
    def is_installed(cls) -> bool:
        """Return whether this machine has it."""
        return bool([*cls._JARS.glob("activemq-amqp-*.jar")])

    @classmethod
    def test_data(cls) -> Path:
        """Return the archive with the data of its own tests."""
        (archive,) = (ROOT / "build" / "activemq-tests").glob("*-tests.jar")
        return archive

    def _command(self) -> tuple[list[str], dict[str, str]]:
        uri = (
            f"broker:(amqp://127.0.0.1:{self.amqp_port},mqtt://127.0.0.1:{self.mqtt_port})"
            f"?persistent=true&useJmx=false&brokerName=bridged&dataDirectory={self.directory / 'data'}"
        )
        if self._configuration:
            text = self._configuration.format(data=self.directory / "data", amqp_port=self.amqp_port).lstrip()
            self.configuration_file.write_text(text)
            uri = f"xbean:file:{self.configuration_file}"
        folders = [f"-Dactivemq.{each}={self.directory}" for each in ("home", "base", "conf", "data")]
        main = "org.apache.activemq.console.Main"
        return ["java", "-Xmx512m", "-cp", f"{self._JARS}/*", *folders, main, "start", uri], {}


@final
class Nats(ForeignBroker):
    """NATS with MQTT, and JetStream that syncs before it confirms. It does not speak AMQP."""

    name = "nats"
    # 2.15.3 loses some of what it confirmed for a session whose client comes back later than the publishers: so it does
    # with two clients of Paho, too.
    survives_kills = False
    keeps_order = False
    _SERVER = ROOT / "build" / "nats" / "nats-server"

    @classmethod
    def is_installed(cls) -> bool:
        """Return whether this machine has it."""
        return cls._SERVER.exists()

    def _command(self) -> tuple[list[str], dict[str, str]]:
        (self.directory / "nats.conf").write_text(
            f'server_name: bridged\nlisten: "127.0.0.1:{self._ports[0]}"\n'
            f'jetstream {{ store_dir: "{self.directory / "store"}", sync_interval: always }}\n'
            f'mqtt {{ listen: "127.0.0.1:{self.mqtt_port}" }}\n'
        )
        return [str(self._SERVER), "-c", str(self.directory / "nats.conf")], {}

    def _is_ready(self) -> bool:
        return self._listens()


@contextmanager
def running(broker: AnyBroker) -> Iterator[AnyBroker]:
    """Start a broker, and end it after the block."""
    try:
        broker.start()
        yield broker
    finally:
        broker.end()
