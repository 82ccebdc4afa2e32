"""What answers at the address of an admin port and is none, or one of another release, or hangs: what was tried is
said, and what to do.
"""

import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from sluicegate.gateway.cli.admin import connection as admin_port
from sluicegate.gateway.cli.commands.mqtt import session as mqtt_session
from sluicegate.gateway.cli.terminal.failures import FAILED, UNREACHABLE
from support.operations.shell import Shell

ANOTHER_ADDRESS = "Give another address with --url or SLUICEGATE_URL."

Answering = Callable[[bytes], Shell]


@pytest.fixture
def answering() -> Iterator[Answering]:
    """A shell whose gateway is somebody who takes one connection and answers this."""
    servers: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def start(raw: bytes) -> Shell:
        server = socket.create_server(("127.0.0.1", 0))
        servers.append(server)

        def answer() -> None:
            stream, _ = server.accept()
            with stream:
                stream.recv(65536)
                stream.sendall(raw)

        threads.append(threading.Thread(target=answer))
        threads[-1].start()
        return Shell(f"http://127.0.0.1:{server.getsockname()[1]}")

    yield start
    for thread in threads:
        thread.join()
    for server in servers:
        server.close()


def http(body: bytes, status: str = "200 OK") -> bytes:
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status.encode(), len(body), body)


def test_a_page_of_another_server_is_no_answer_of_a_gateway(answering: Answering) -> None:
    shell = answering(http(b"<html>hello</html>"))
    told = shell.run("show", "queue", expect=UNREACHABLE)
    assert f"the server at {shell.url} is not a Sluicegate admin port" in told
    assert ANOTHER_ADDRESS in told


@pytest.mark.parametrize("command", [("client", "trace", "lamp"), ("client", "trace", "--username", "ada")])
def test_a_page_of_another_server_is_no_trace_of_a_client(answering: Answering, command: tuple[str, ...]) -> None:
    shell = answering(http(b"<html>hello</html>"))
    assert f"the server at {shell.url} is not a Sluicegate admin port" in shell.run(*command, expect=UNREACHABLE)


def test_the_port_for_publishers_is_told_from_the_admin_port(answering: Answering) -> None:
    """It answers so to a GET of a path that it does not know."""
    body = b'{"status": 405, "detail": "GET is not allowed here; allowed: OPTIONS, POST"}'
    told = answering(http(body, "405 Method Not Allowed")).run("queue", "list", expect=UNREACHABLE)
    assert "is not a Sluicegate admin port, or one of another release: GET is not allowed here" in told
    assert ANOTHER_ADDRESS in told


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"{}"])
def test_an_error_of_another_server_is_reported_with_its_address(answering: Answering, body: bytes) -> None:
    shell = answering(http(body, "404 Not \x1b[31m Found"))
    told = shell.run("show", "queue", expect=FAILED)
    assert f"{shell.url} answered 404 'Not \\x1b[31m Found', which is not an answer of a gateway" in told
    assert ANOTHER_ADDRESS in told


@pytest.mark.parametrize(("body", "place"), [(b'{"a": 1}', "incarnation: "), (b"[]", "the whole answer: ")])
def test_a_response_of_another_release_is_reported_with_advice(answering: Answering, body: bytes, place: str) -> None:
    told = answering(http(body)).run("show", "message-spool", expect=FAILED)
    assert f"cannot read the answer ({place}" in told
    assert "Use the gateway's own release; `sluicegate version` prints this one. " + ANOTHER_ADDRESS in told


def test_a_gateway_that_ends_within_its_answer_is_not_taken_for_another_program(answering: Answering) -> None:
    shell = answering(http(b"{}").replace(b"Length: 2", b"Length: 20"))
    told = shell.run("show", "queue", expect=UNREACHABLE)
    assert f"cannot reach a gateway at {shell.url}: the answer is incomplete" in told


@pytest.mark.parametrize("command", [("show", "queue"), ("queue", "delete", "q", "--yes"), ("events", "--follow")])
def test_a_gateway_that_hangs_is_waited_for_no_longer_than_it_says(
    monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    """The system takes connections for a process that does not."""
    assert admin_port.PATIENCE_S + admin_port.PROBE_S == 10
    monkeypatch.setattr(admin_port, "PATIENCE_S", 0.05)
    monkeypatch.setattr(admin_port, "PROBE_S", 0.15)
    with socket.create_server(("127.0.0.1", 0)) as server:
        shell = Shell(f"http://127.0.0.1:{server.getsockname()[1]}")
        told = shell.run(*command, expect=UNREACHABLE)
    assert f"cannot reach a gateway at {shell.url}: it has not answered for 0.2 s" in told


def test_a_slow_operation_is_waited_for_while_the_gateway_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_port, "PATIENCE_S", 0.05)

    def serve(server: socket.socket) -> None:
        slow, _ = server.accept()
        probe, _ = server.accept()  # made while the first connection still waits
        with slow, probe:
            assert probe.recv(65536).startswith(b"GET /health/live")
            probe.sendall(http(b"", "503 Service Unavailable"))
            slow.recv(65536)
            slow.sendall(http(b'{"purged_count": 3}'))

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, args=(server,))
        thread.start()
        shell = Shell(f"http://127.0.0.1:{server.getsockname()[1]}")
        assert shell.run("queue", "purge", "q", "--yes") == "removed 3 messages from q\n"
        thread.join()


@pytest.mark.parametrize("command", [("pub", "--message", "x"), ("sub",)])
def test_an_mqtt_port_that_answers_nothing_is_reported_with_the_time(
    monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    assert mqtt_session.ANSWER_TIMEOUT_S == 10
    monkeypatch.setattr(mqtt_session, "ANSWER_TIMEOUT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        told = Shell("").run(*command, "--topic", "a", "--port", port, expect=UNREACHABLE)
    assert f"127.0.0.1:{port} has not answered CONNECT within 0.2 s; is it an MQTT port?" in told
