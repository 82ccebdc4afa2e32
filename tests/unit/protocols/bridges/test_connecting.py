"""How a remote connects: to the first address that answers, not beyond a limit, and not for a bridge that stops."""

import errno
import socket
import ssl
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from sluicegate.protocols.bridges.remote import RemoteFailed
from sluicegate.protocols.bridges.remotes import connecting
from sluicegate.protocols.bridges.remotes.amqp import AmqpRemote
from sluicegate.protocols.bridges.remotes.connecting import Connector, LineClosed
from sluicegate.protocols.bridges.remotes.mqtt.mqtt_3 import Mqtt3Remote
from sluicegate.protocols.bridges.remotes.mqtt.mqtt_5 import Mqtt5Remote
from sluicegate.protocols.bridges.remotes.sockets import Waker
from support.bridges.remote_side import RemoteSide

NAME = "broker.example"
REMOTES = pytest.mark.parametrize(
    ("make", "scheme"), [(Mqtt3Remote, "mqtt"), (Mqtt5Remote, "mqtt"), (AmqpRemote, "amqp")], ids=["3.1.1", "5", "AMQP"]
)


@pytest.fixture
def waker() -> Iterator[Waker]:
    made = Waker()
    yield made
    made.close()


class Names:
    """The system's look-up of names, which answers when the test says so. Addresses are themselves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._answers = socket.getaddrinfo
        self.answer = threading.Event()
        self.addresses: list[tuple[str, int]] = []
        self.look_ups_count = 0
        self.begun = threading.Event()
        self.has_unknown_family = False  # the first address is of a family that this machine does not have
        monkeypatch.setattr(socket, "getaddrinfo", self._look_up)

    def _look_up(self, host: str, port: int, **given: int) -> list[Any]:
        if host != NAME:
            return self._answers(host, port, type=given["type"], flags=given.get("flags", 0))
        if given.get("flags"):
            raise socket.gaierror(socket.EAI_NONAME, "not a number")
        self.look_ups_count += 1
        self.begun.set()
        self.answer.wait(20)
        if not self.addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        found = [self._answers(host, port, type=socket.SOCK_STREAM) for host, port in self.addresses]
        unknown = [(socket.AF_X25, socket.SOCK_STREAM, 0, "", ("0", 0))] if self.has_unknown_family else []
        return [*unknown, *[each for answers in found for each in answers]]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[Names]:
    made = Names(monkeypatch)
    yield made
    made.answer.set()


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


def test_the_next_address_is_tried_when_one_refuses(waker: Waker, names: Names) -> None:
    names.answer.set()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        names.addresses = [("127.0.0.1", closed_port()), listener.getsockname()]
        with Connector(NAME, 1, None).connect(waker, lambda: False) as sock:
            assert sock.getpeername() == listener.getsockname()
            assert sock.gettimeout() == 0, "it does not block"


def test_the_next_address_is_tried_when_this_machine_has_no_such_addresses(waker: Waker, names: Names) -> None:
    """Containers often have no IPv6, and names have addresses of both versions."""
    names.answer.set()
    names.has_unknown_family = True
    with socket.create_server(("127.0.0.1", 0)) as listener:
        names.addresses = [listener.getsockname()]
        with Connector(NAME, 1, None).connect(waker, lambda: False) as sock:
            assert sock.getpeername() == listener.getsockname()


def test_a_refusal_is_the_reason(waker: Waker) -> None:
    with pytest.raises(RemoteFailed, match=r"^Connection refused$"):
        Connector("127.0.0.1", closed_port(), None).connect(waker, lambda: False)


def test_an_unknown_name_is_the_reason(waker: Waker, names: Names) -> None:
    names.answer.set()
    with pytest.raises(RemoteFailed, match=f"the name '{NAME}': Name or service not known"):
        Connector(NAME, 1, None).connect(waker, lambda: False)


def test_a_look_up_that_does_not_end_is_given_up_and_not_begun_twice(
    waker: Waker, names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    connector = Connector(NAME, 1, None)
    with monkeypatch.context() as shortly:
        shortly.setattr(connecting, "CONNECT_S_MAX", 0.05)
        for _ in range(3):
            with pytest.raises(RemoteFailed, match="was not found within"):
                connector.connect(waker, lambda: False)
    assert names.look_ups_count == 1
    with socket.create_server(("127.0.0.1", 0)) as listener:
        names.addresses = [listener.getsockname()]
        names.answer.set()
        connector.connect(waker, lambda: False).close()


def test_a_bridge_that_stops_ends_a_look_up(waker: Waker, names: Names) -> None:
    waker.wake()
    with pytest.raises(LineClosed):
        Connector(NAME, 1, None).connect(waker, lambda: True)


def test_a_bridge_that_stops_ends_a_connection_that_nobody_accepts(waker: Waker) -> None:
    """The backlog of the listener is full, as behind a firewall that drops packets."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        address: tuple[str, int] = listener.getsockname()
        waiting = []
        for _ in range(4):
            sock = socket.socket()
            sock.setblocking(False)
            sock.connect_ex(address)
            waiting.append(sock)
        waker.wake()
        with pytest.raises(LineClosed):
            Connector("127.0.0.1", address[1], None).connect(waker, lambda: True)
        for sock in waiting:
            sock.close()


def test_a_peer_that_answers_no_tls_is_given_up(waker: Waker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connecting, "CONNECT_S_MAX", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        connector = Connector("127.0.0.1", port, ssl.create_default_context)
        with pytest.raises(RemoteFailed, match="no connection within"):
            connector.connect(waker, lambda: False)


# --- the remotes that connect so ---


@REMOTES
def test_a_bridge_that_stops_ends_the_look_up_of_a_remote(names: Names, make: Any, scheme: str) -> None:
    side = RemoteSide(make, 1, scheme=scheme, host=NAME)
    side.connect()
    names.begun.wait(20)
    side.line.close()
    ended = side.ends()
    assert (ended.reason, ended.is_fault) == ("", False)


@REMOTES
def test_a_name_that_is_not_found_is_the_reason_of_a_remote(names: Names, make: Any, scheme: str) -> None:
    names.answer.set()
    side = RemoteSide(make, 1, scheme=scheme, host=NAME)
    side.connect()
    assert side.ends().reason == f"the name '{NAME}': Name or service not known"


@pytest.mark.parametrize("what", ["socket.socketpair", "selectors.DefaultSelector"])
@REMOTES
def test_a_system_without_further_descriptors_is_the_reason(
    make: Any, scheme: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken for a fault of ours, the bridge would forget its states, and send messages twice."""

    def refuse() -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    side = RemoteSide(make, 1, scheme=scheme)
    monkeypatch.setattr(what, refuse)
    side.connect()
    ended = side.ends()
    assert (ended.reason, ended.is_fault) == ("Too many open files", False)
