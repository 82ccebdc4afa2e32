"""A broker for a test: start and end, addresses, and helpers that fill it, look into it and disturb it."""

import json
import shutil
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self, cast
from urllib.parse import urlsplit

from sluicegate.client import BlockingClient, ClientOptions, Message
from sluicegate.messaging.message.vpn import DEFAULT_VPN
from sluicegate.testing.errors import BrokerFailed
from sluicegate.testing.messages import QueueState, StoredMessage
from sluicegate.testing.ports import LOOPBACK, SECTIONS, free_port, is_free
from sluicegate.testing.running.order import StartOrder
from sluicegate.testing.running.process import BrokerProcess

WAIT_S: Final = 10.0  # by default, for what a test waits for
LOOK_EVERY_S: Final = 0.005
LOG_CHARS_MAX: Final = 8000  # of the log, in an error
STARTS_MAX: Final = 5  # with other ports each time: another program may take one that was free a moment ago
COLLECTING_PREFIX: Final = "collected-"
NOT_STARTED: Final = "the broker is not started: `with Broker() as broker:`, or broker.start(), comes first"


class Place(Protocol):
    """Where a broker runs: `BrokerProcess` or `BrokerThread`."""

    def call(self, name: str, *arguments: object) -> object:
        """Have the broker carry out a call. Raises BrokerFailed and OperationRefused."""

    def crash(self) -> None:
        """End the broker as a crash does."""

    def end(self) -> None:
        """End what it runs in; it is stopped."""


class Broker:
    """A broker on free ports and an empty folder, for a test.

        with sluicegate.testing.Broker() as broker:
            broker.create_queue("orders", subscriptions=["orders/>"])
            application = Application(broker.mqtt_url)

    All methods may be called from any thread. Those that take `vpn` are about that message VPN.
    """

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        *,
        thread: bool = False,
        accounts: Mapping[str, str] | None = None,
        config_file: Path | str | None = None,
        login: tuple[str, str] | None = None,
    ) -> None:
        """Describe a broker, which starts with `start`, or when it is entered with `with`.

            Broker({"mqtt.receive_maximum": 10, "admin.enabled": True}, accounts={"ada": "engine"})

        - `settings` (mapping): settings by path, as in docs/operate/settings.md. Ports that they do not set are free
          ones. Beyond the defaults, the admin port is off, the disk is not waited for, and the spool is small.
        - `thread` (bool): run in this process, on a thread; by default it has a process of its own.
        - `accounts` (mapping): passwords by user name; nobody else may connect.
        - `config_file` (path): a configuration file to begin with.
        - `login` (name and password): the account that `publish` uses; by default the first of `accounts`.

        Raises ValueError for `accounts` beside a `config_file`, which has accounts itself.
        """
        if accounts and config_file:
            raise ValueError("give accounts, or a config_file that has them: not both")
        self.folder = Path(tempfile.mkdtemp(prefix="sluicegate-"))
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        self._settings = dict(settings or {})
        self._is_on_thread = thread
        self._config_file = _file_of_accounts(self.folder, accounts) if accounts else config_file
        self._login = login or (next(iter(accounts.items())) if accounts else None)
        self._ports: dict[str, int] = {}  # that were drawn, by section
        self._urls: dict[str, str] = {}
        self._place: Place | None = None
        self._ahead_ms = 0
        self._collected_count = 0

    # --- where it is ---

    @property
    def host(self) -> str:
        """The address that all ports are on."""
        return LOOPBACK

    @property
    def urls(self) -> Mapping[str, str]:
        """The URL of each port by its name: `mqtt`, `mqtt_websocket`, `amqp`, `flow`, `http`, and others if enabled.

        They stay the same over stops and starts. Raises BrokerFailed before the first start.
        """
        if not self._urls:
            raise BrokerFailed(NOT_STARTED)
        return self._urls

    def url(self, name: str) -> str:
        """Return the URL of a port. Raises LookupError for one that is not open."""
        if name not in self.urls:
            section = SECTIONS.get(name)
            advice = "there is no such port" if section is None else f"enable it: {{'{section}.enabled': True}}"
            raise LookupError(f"{name} is not open, only {', '.join(self.urls)}; {advice}")
        return self.urls[name]

    def port(self, name: str) -> int:
        """Return the number of a port. Raises LookupError for one that is not open."""
        port = urlsplit(self.url(name)).port
        assert port is not None, "the broker names it"
        return port

    @property
    def mqtt_url(self) -> str:
        """Where MQTT clients connect: `mqtt://HOST:PORT`."""
        return self.url("mqtt")

    @property
    def mqtt_port(self) -> int:
        """The port for MQTT, for clients that take no URL."""
        return self.port("mqtt")

    @property
    def mqtt_websocket_url(self) -> str:
        """Where MQTT clients connect over WebSocket: `ws://HOST:PORT/mqtt`."""
        return self.url("mqtt_websocket")

    @property
    def amqp_url(self) -> str:
        """Where AMQP 1.0 clients connect: `amqp://HOST:PORT`."""
        return self.url("amqp")

    @property
    def flow_url(self) -> str:
        """Where clients of the flow protocol connect: `flow://HOST:PORT`."""
        return self.url("flow")

    @property
    def http_url(self) -> str:
        """Where messages are posted: `http://HOST:PORT`."""
        return self.url("http")

    @property
    def admin_url(self) -> str:
        """The admin port, with the console. It is open with the setting `admin.enabled`."""
        return self.url("admin")

    # --- start and end ---

    @property
    def is_running(self) -> bool:
        """Whether it was started, and not stopped or crashed since."""
        return self._place is not None

    def start(self) -> None:
        """Start, and return when it takes traffic; after a stop or a crash, on the same ports and with its messages.

        Raises BrokerFailed when it cannot start, with its log. A broker that runs stays as it is.
        """
        if self._place is not None:
            return
        for attempt in range(1, STARTS_MAX + 1):
            order = self._order()
            place = self._make_place()
            try:
                self._urls = dict(cast(Mapping[str, str], place.call("start", order)))
            except BaseException as error:
                place.end()
                if not isinstance(error, BrokerFailed) or self._urls:
                    raise self._failure("the broker did not start", error) from None
                if attempt == STARTS_MAX or not self._forgets_taken_ports():
                    raise self._failure("the broker did not start", error) from None
            else:
                self._place = place
                return

    def stop(self) -> None:
        """Stop in good order, as on SIGTERM. Clients are told where their protocol can, and messages stay.

        Raises BrokerFailed for one that has ended by itself.
        """
        if (place := self._place) is not None:
            self._place = None
            try:
                place.call("stop")
            except BrokerFailed as error:
                raise self._failure("the broker did not stop in good order", error) from None
            finally:
                place.end()

    def restart(self) -> None:
        """Stop in good order, and start again."""
        self.stop()
        self.start()

    def crash(self) -> None:
        """End as a process does that is killed: connections break, and what was confirmed is there at the next start.

        A broker in a process of its own gets SIGKILL. One on a thread keeps the data of this moment.
        """
        place, self._place = self._running(), None
        place.crash()

    def close(self) -> None:
        """Stop for good, and remove its folder. Harmless when it is stopped."""
        try:
            self.stop()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)
            self._ports.clear()

    def clear(self) -> None:
        """Begin anew, between tests: without queues, messages, sessions and clients, at the time of this machine.

        Ports, settings and accounts stay. Clients are cut off. A broker that is stopped is started.
        """
        self._ahead_ms = 0
        if (place := self._place) is None:
            shutil.rmtree(self._data, ignore_errors=True)
            self.start()
            return
        self._call("drop")
        shutil.rmtree(self._data)
        self._place = None
        try:
            place.call("start", self._order())
        except BaseException as error:
            place.end()
            raise self._failure("the broker did not start again", error) from None
        self._place = place

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except BrokerFailed as failure:
            if error is None:
                raise
            error.add_note(str(failure))

    # --- queues and messages ---

    def create_queue(
        self,
        name: str,
        *,
        subscriptions: list[str] | tuple[str, ...] = (),
        durable: bool = True,
        vpn: str = DEFAULT_VPN,
        **attributes: object,
    ) -> None:
        """Create a queue. Messages to its `subscriptions`, which are topics, go to it; topics need no creation.

            broker.create_queue("orders", subscriptions=["orders/>"], max_redelivery_count=3)

        `attributes` are those of docs/concepts/queues.md. Raises OperationRefused for one that exists or is wrong.
        """
        self._call("create_queue", name, {"subscriptions": list(subscriptions), **attributes}, durable, vpn)

    def collect(self, *topics: str, vpn: str = DEFAULT_VPN) -> str:
        """Create a queue that collects what is published to topics from now on; return its name, for `drain`."""
        self._collected_count += 1
        name = f"{COLLECTING_PREFIX}{self._collected_count}"
        self.create_queue(name, subscriptions=topics, vpn=vpn)
        return name

    def delete_queue(self, name: str, *, vpn: str = DEFAULT_VPN) -> None:
        """Delete a queue with its messages. Raises OperationRefused when there is none."""
        self._call("delete_queue", name, vpn)

    def queues(self, *, vpn: str = DEFAULT_VPN) -> list[str]:
        """Return the names of all queues, sorted."""
        return cast(list[str], self._call("queue_names", vpn))

    def queue(self, name: str, *, vpn: str = DEFAULT_VPN) -> QueueState:
        """Return what a queue holds now. Raises OperationRefused when there is none."""
        return cast(QueueState, self._call("queue_state", name, vpn))

    def publish(self, *messages: Message, vpn: str = DEFAULT_VPN) -> None:
        """Publish messages in order, and return when all are stored.

            broker.publish(sluicegate.Message(b"21.5", topic="plant/7", key="sensor-1"))

        Raises sluicegate.PublishRefused when one of them is refused. A client publishes them that is connected for
        this call.
        """
        self._running()
        name, password = self._login or ("", "")
        options = ClientOptions(username=name, password=password, vpn="" if vpn == DEFAULT_VPN else vpn)
        with BlockingClient(self.flow_url, options) as client, client.publisher() as publisher:
            publisher.send_all(messages, timeout_s=WAIT_S)
            publisher.flush(timeout_s=WAIT_S)

    def browse(self, queue: str, *, selector: str = "", vpn: str = DEFAULT_VPN) -> list[StoredMessage]:
        """Return the messages of a queue, oldest first, or those that a selector selects. They stay there.

        At most 100,000 are returned. Messages that a consumer holds are among them (`is_held`). Raises OperationRefused
        for no queue.
        """
        return cast(list[StoredMessage], self._call("browse", queue, selector, vpn))

    def drain(self, queue: str, *, vpn: str = DEFAULT_VPN) -> list[StoredMessage]:
        """Take all messages out of a queue that no consumer holds, and return them, oldest first.

        At most 100,000 are taken. Raises OperationRefused for no queue.
        """
        return cast(list[StoredMessage], self._call("drain", queue, vpn))

    def purge(self, queue: str, *, vpn: str = DEFAULT_VPN) -> int:
        """Remove the messages of a queue that no consumer holds; return how many. Raises OperationRefused."""
        return cast(int, self._call("purge_queue", queue, vpn))

    def wait_for_messages(
        self, queue: str, count: int = 1, *, within_s: float = WAIT_S, vpn: str = DEFAULT_VPN
    ) -> QueueState:
        """Wait until a queue has so many messages or more, held ones included; return what it holds.

        Raises TimeoutError, which says how many there were, and OperationRefused for no queue.
        """
        return self._wait_for_queue(
            queue, lambda state: state.message_count >= count, f"{count} messages", within_s, vpn
        )

    def wait_until_empty(self, queue: str, *, within_s: float = WAIT_S, vpn: str = DEFAULT_VPN) -> QueueState:
        """Wait until consumers have settled all messages of a queue; return what it holds. Raises TimeoutError."""
        return self._wait_for_queue(queue, lambda state: state.message_count == 0, "no message", within_s, vpn)

    def wait_for_consumers(
        self, queue: str, count: int = 1, *, within_s: float = WAIT_S, vpn: str = DEFAULT_VPN
    ) -> QueueState:
        """Wait until a queue has so many consumers or more; return what it holds. Raises TimeoutError."""
        return self._wait_for_queue(
            queue, lambda state: len(state.consumers) >= count, f"{count} consumers", within_s, vpn
        )

    # --- clients ---

    def clients(self, *, vpn: str = DEFAULT_VPN) -> list[str]:
        """Return the names of the connected clients, sorted: MQTT client ids, AMQP container ids, flow client names."""
        return cast(list[str], self._call("client_names", vpn))

    def wait_for_client(self, name: str, *, within_s: float = WAIT_S, vpn: str = DEFAULT_VPN) -> None:
        """Wait until a client of that name is connected. Raises TimeoutError, which says who is."""
        wait_until(
            lambda: name in self.clients(vpn=vpn),
            within_s=within_s,
            problem=lambda: f"client {name!r} is not connected, only {self.clients(vpn=vpn)}",
        )

    def cut(self, client: str | None = None) -> int:
        """Cut the connections of a client, or of all, as a network does that breaks; return how many.

        The broker says nothing on them. It lets clients connect again at once: `refusing` does not.
        """
        return cast(int, self._call("cut", client))

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Refuse connections for the length of a `with` block, as when nothing listens. Those that are open stay."""
        self._call("refuse")
        try:
            yield
        finally:
            if self.is_running:
                self._call("accept")

    # --- time ---

    def forward(self, seconds: float, *, keeps_clients: bool = True) -> None:
        """Put the broker's clock forward, and have it do what is due: messages expire, delays and sessions end.

        It is as if the broker had slept: what was due in between happens now, once. Clients stay connected, as if they
        had sent their keep-alives; without `keeps_clients` those go that have promised to. Clients themselves do not
        see the broker's clock. It stays forward over stops and starts, until `clear`.
        """
        if seconds < 0:
            raise ValueError(f"forward({seconds}): the clock goes forward only")
        self._call("forward", seconds, keeps_clients)
        self._ahead_ms += int(seconds * 1000)

    # --- what it says ---

    def metric(self, name: str, **labels: str) -> float:
        """Return a metric, summed over all samples with these labels; `vpn` is one.

            broker.metric("sluicegate_queue_messages", queue="orders")

        docs/operate/metrics.md lists them. Raises LookupError for a name that is not among them.
        """
        return cast(float, self._call("metric", name, labels))

    def log(self) -> str:
        """Return what the broker has written to its log, over all starts."""
        file = self.folder / "broker.log"
        return file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""

    # --- inside ---

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _make_place(self) -> Place:
        log = self.folder / "broker.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        if not self._is_on_thread:
            return BrokerProcess(log)
        from sluicegate.testing.running.thread import BrokerThread  # late: it imports the broker

        return BrokerThread(log)

    def _order(self) -> StartOrder:
        settings: dict[str, object] = {
            "data.path": self._data,
            "backup.path": self.folder / "backups",
            "admin.enabled": False,
        }
        for section in SECTIONS.values():
            setting = f"{section}.port"
            if setting not in self._settings:
                if section not in self._ports:
                    self._ports[section] = free_port()
                settings[setting] = self._ports[section]
        settings |= self._settings
        file = None if self._config_file is None else Path(self._config_file)
        texts = tuple(f"{path}={_text_of(value)}" for path, value in settings.items())
        return StartOrder(settings=texts, config_file=file, ahead_ms=self._ahead_ms)

    def _forgets_taken_ports(self) -> bool:
        """Forget the own ports that another program has taken since; return whether there are any."""
        taken = {section: port for section, port in self._ports.items() if not is_free(port)}
        for section in taken:
            del self._ports[section]
        return bool(taken)

    def _running(self) -> Place:
        if self._place is None:
            raise BrokerFailed("the broker is stopped: start() comes first" if self._urls else NOT_STARTED)
        return self._place

    def _call(self, name: str, *arguments: object) -> object:
        place = self._running()
        try:
            return place.call(name, *arguments)
        except BrokerFailed as error:
            raise self._failure("the broker has failed", error) from None

    def _failure(self, what: str, error: BaseException) -> BaseException:
        """Return a BrokerFailed with the end of the log; other errors as they are."""
        if not isinstance(error, BrokerFailed):
            return error
        log = self.log()[-LOG_CHARS_MAX:].strip()
        return BrokerFailed(f"{what}: {error}\n--- its log ---\n{log or '(nothing)'}")

    def _wait_for_queue(
        self, queue: str, condition: Callable[[QueueState], bool], wanted: str, within_s: float, vpn: str
    ) -> QueueState:
        state = self.queue(queue, vpn=vpn)

        def is_there() -> bool:
            nonlocal state
            state = self.queue(queue, vpn=vpn)
            return condition(state)

        wait_until(is_there, within_s=within_s, problem=lambda: f"waited for {wanted}: {_described(state)}")
        return state


def wait_until(condition: Callable[[], bool], *, within_s: float, problem: Callable[[], str]) -> None:
    """Look again and again until a condition holds. Raises TimeoutError, with the problem that there is then."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() >= deadline:
            raise TimeoutError(f"{problem()}, after {within_s:g} s")
        time.sleep(LOOK_EVERY_S)


def _described(state: QueueState) -> str:
    counts = f"{state.message_count} messages ({state.unacked_count} held by consumers)"
    return f"queue {state.name!r} has {counts} and {len(state.consumers)} consumers"


def _text_of(value: object) -> str:
    """Return a value as the configuration reads it."""
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value) if isinstance(value, list | dict) else str(value)


def _file_of_accounts(folder: Path, accounts: Mapping[str, str]) -> Path:
    """Write a configuration file. Passwords stand in files of their own, the one place for plain ones."""
    users = []
    for number, (name, password) in enumerate(accounts.items()):
        secret = folder / f"password-{number}"
        secret.write_text(password)
        users.append({"name": name, "password_file": str(secret)})
    file = folder / "gateway.yaml"
    file.write_text(json.dumps({"authentication": {"allow_anonymous": False, "users": users}}))  # JSON is YAML
    return file
