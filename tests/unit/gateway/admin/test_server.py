"""The HTTP of the admin port, by its sockets."""

import asyncio
import functools
import logging
import socket
from contextlib import suppress
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection

import pytest
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from sluicegate.gateway.admin import server
from sluicegate.gateway.admin.server import AdminServer
from sluicegate.protocols.transport.loop import event_loop as socket_loop
from support.operations.memory_node import MemoryNode
from support.operations.running_admin import RunningAdmin, running_admin

REQUEST = b"GET / HTTP/1.1\r\nHost: gateway\r\n\r\n"


async def _reads_the_body(scope: Scope, receive: Receive, send: Send) -> None:
    with suppress(ClientDisconnect):  # what is answered then is for the audit
        await Request(scope, receive).body()
    await PlainTextResponse("well")(scope, receive, send)


async def _goes_on_answering(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"99")]})
    await send({"type": "http.response.body", "body": b"well", "more_body": True})
    while (await receive())["type"] != "http.disconnect":
        pass
    await send({"type": "http.response.body", "body": b"and on"})


@pytest.mark.parametrize("beginning", [b"", b"GET / HT", REQUEST + b"GET / HT"])
def test_who_sends_no_whole_request_gives_its_place_up(beginning: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """There are places for a hundred and some: silent connections would shut operators and probes out."""
    monkeypatch.setattr(server, "HEAD_S", 0.1)

    async def converse() -> bytes:
        admin = AdminServer(PlainTextResponse("well"), name="admin", host="127.0.0.1", port=0, tls=None)
        await admin.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", admin.port)
        writer.write(beginning)
        got = await asyncio.wait_for(reader.read(), timeout=60)  # to the end
        writer.close()
        await admin.stop()
        return got

    assert socket_loop.run(converse()).count(b"well") == beginning.count(REQUEST)


def test_who_trickles_a_body_behind_its_answer_gives_its_place_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is not let in could hold places so, too: the answer does not wait for the body."""
    monkeypatch.setattr(server, "HEAD_S", 0.1)

    async def converse() -> bytes:
        admin = AdminServer(PlainTextResponse("well"), name="admin", host="127.0.0.1", port=0, tls=None)
        await admin.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", admin.port)
        writer.write(b"POST / HTTP/1.1\r\nHost: gateway\r\nContent-Length: 1000000000\r\n\r\n")
        answer = await asyncio.wait_for(reader.readuntil(b"well"), timeout=60)
        async with asyncio.timeout(60):
            while admin.listener.connection_count:
                writer.write(b"x")
                await asyncio.sleep(0)
        writer.close()
        await admin.stop()
        return answer

    assert socket_loop.run(converse()).startswith(b"HTTP/1.1 200 ")


def test_a_target_that_names_its_host_is_that_of_a_path(admin: RunningAdmin) -> None:
    """RFC 9112, 3.2.2: a server takes the absolute form, as clients send it to proxies, and goes by its host."""
    here = admin.url.removeprefix("http://")
    targets = {
        f"http://{here}/queues/eu%2Forders?vpn=default": (here, 200),
        f"HTTP://{here}": ("elsewhere.example", 307),
        f"http://{here}/none": (here, 404),
        "http://elsewhere.example/queues": (here, 421),
    }
    admin.ask("POST", "/queues", {"name": "eu/orders"})
    answers: dict[str, tuple[str, int]] = {}
    for target, (host, _) in targets.items():
        client = HTTPConnection(here, timeout=60)
        client.putrequest("GET", target, skip_host=True)
        client.putheader("Host", host)
        client.endheaders()
        answers[target] = (host, client.getresponse().status)
        client.close()
    assert answers == targets


@pytest.mark.parametrize("path", ["/queues", "/SEMP/v2/config/msgVpns/default/queues"])
def test_a_body_that_arrives_too_slowly_gets_an_error(path: str, node: MemoryNode) -> None:
    """RFC 9110, 15.5.9: and the connection ends with the answer. It is not the node that did not answer in time."""
    with (
        running_admin(node, body_timeout_s=0.05) as admin,
        socket.create_connection(("127.0.0.1", int(admin.url.rpartition(":")[2])), timeout=60) as client,
        client.makefile("rb") as answers,
    ):
        head = (
            f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n"
        )
        client.sendall(head.encode() + b'{"name": ')
        answer = answers.read()  # to the end of the connection
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"\r\nconnection: close\r\n" in answer.lower()
    assert b"was not complete within 0.05 s" in answer


@pytest.mark.parametrize("path", ["/queues/q", "/SEMP/v2/monitor/msgVpns/default/queues/q"])
def test_an_answer_that_does_not_come_is_reported_with_its_request_and_the_time(
    path: str, node: MemoryNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stuck() -> None:
        raise TimeoutError

    monkeypatch.setattr(node, "show_queue", lambda name: stuck())
    with running_admin(node) as admin:
        answer = admin.ask("GET", path)
    assert answer.status in (503, 504)
    assert f"the node has not answered GET {path} within 30 s".encode() in answer.body


CHUNKED = (
    b"POST /queues HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
)
BROKEN = b"no chunk\r\n"


@pytest.mark.parametrize(
    ("app", "pieces", "statuses"),
    [
        (_reads_the_body, [CHUNKED + BROKEN], [400]),
        (_reads_the_body, [CHUNKED, BROKEN], [400]),
        (PlainTextResponse("well"), [CHUNKED + BROKEN], [400]),
        (PlainTextResponse("well"), [CHUNKED, BROKEN], [200]),
        (_goes_on_answering, [CHUNKED, BROKEN], [200]),
    ],
)
def test_a_body_that_breaks_off_is_no_fault_of_ours(
    app: ASGIApp, pieces: list[bytes], statuses: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    """RFC 9112 7.1: whoever reaches the port can send that, and each would write a traceback to the log."""

    async def converse() -> bytes:
        admin = AdminServer(app, name="admin", host="127.0.0.1", port=0, tls=None)
        await admin.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", admin.port)
        got = b""
        async with asyncio.timeout(60):
            for number, piece in enumerate(pieces):
                writer.write(piece)
                if number + 1 < len(pieces) and statuses == [200]:
                    got += await reader.readuntil(b"well")
                await asyncio.sleep(0)
            got += await reader.read()  # to the end
        writer.close()
        await admin.stop()
        return got

    assert [int(each[:3]) for each in socket_loop.run(converse()).split(b"HTTP/1.1 ")[1:]] == statuses
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


def test_a_request_that_takes_its_time_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only silence of the peer counts, not how long an answer takes."""
    monkeypatch.setattr(server, "HEAD_S", 0.05)

    async def answer(scope: object, receive: object, send: object) -> None:
        await asyncio.sleep(0.5)
        await PlainTextResponse("well")(scope, receive, send)  # type: ignore[arg-type]

    async def converse() -> bytes:
        admin = AdminServer(answer, name="admin", host="127.0.0.1", port=0, tls=None)
        await admin.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", admin.port)
        writer.write(REQUEST)
        got = await asyncio.wait_for(reader.read(), timeout=60)
        writer.close()
        await admin.stop()
        return got

    assert socket_loop.run(converse()).endswith(b"well")


def test_an_answer_says_when_it_was_made() -> None:
    """RFC 9110, 6.6.1: an origin server with a clock sends Date."""

    async def converse() -> bytes:
        admin = AdminServer(PlainTextResponse("well"), name="admin", host="127.0.0.1", port=0, tls=None)
        await admin.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", admin.port)
        writer.write(REQUEST)
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), timeout=60)
        writer.close()
        await admin.stop()
        return head

    (date,) = [line for line in socket_loop.run(converse()).splitlines() if line.startswith(b"date: ")]
    assert parsedate_to_datetime(date[6:].decode()).tzinfo is not None


def test_with_too_many_connections_the_largest_crowd_loses_its_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who fills the port up with connections shuts neither probes nor operators of other addresses out."""
    monkeypatch.setattr(server, "CONNECTIONS_MAX", 8)

    async def converse() -> tuple[bytes, list[bool]]:
        admin = AdminServer(PlainTextResponse("well"), name="admin", host="127.0.0.1", port=0, tls=None)
        await admin.start()
        dial = functools.partial(asyncio.open_connection, "127.0.0.1", admin.port)
        kept = [await dial(local_addr=("127.0.0.2", 0)) for _ in range(3)]
        crowd = [await dial(local_addr=("127.0.0.3", 0)) for _ in range(7)]
        async with asyncio.timeout(60):
            for reader, _ in crowd[:2]:
                assert await reader.read() == b""
        answers = []
        for reader, writer in kept:
            writer.write(REQUEST)
            answers.append(await asyncio.wait_for(reader.readuntil(b"well"), timeout=60))
        open_ones = [not reader.at_eof() for reader, _ in crowd]
        assert (admin.listener.connection_count, admin.listener.refused_count) == (8, 2)
        await admin.stop()
        for _, writer in [*kept, *crowd]:
            writer.close()
        return answers[-1], open_ones

    answer, open_ones = socket_loop.run(converse())
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert open_ones == [False] * 2 + [True] * 5


def test_a_client_that_takes_nothing_of_its_answer_gives_its_place_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else an account would hold its places for as long as it likes."""
    monkeypatch.setattr(server, "UNREAD_S", 0.1)
    ended = asyncio.Event()

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            for _ in range(1000):
                await send({"type": "http.response.body", "body": bytes(1 << 20), "more_body": True})
            await send({"type": "http.response.body"})
        finally:
            ended.set()

    async def converse() -> None:
        admin = AdminServer(answer, name="admin", host="127.0.0.1", port=0, tls=None)
        await admin.start()
        client = socket.create_connection(("127.0.0.1", admin.port))
        client.sendall(REQUEST)
        await asyncio.wait_for(ended.wait(), timeout=60)
        await admin.stop()
        client.close()

    socket_loop.run(converse())


def test_a_stop_finishes_the_answers_under_way_and_closes_what_is_idle() -> None:
    asked, released = asyncio.Event(), asyncio.Event()

    async def answer(scope: object, receive: object, send: object) -> None:
        asked.set()
        await released.wait()
        await PlainTextResponse("well")(scope, receive, send)  # type: ignore[arg-type]

    async def converse() -> tuple[bytes, bytes]:
        admin = AdminServer(answer, name="admin", host="127.0.0.1", port=0, tls=None)
        await admin.start()
        silent, silent_writer = await asyncio.open_connection("127.0.0.1", admin.port)
        reader, writer = await asyncio.open_connection("127.0.0.1", admin.port)
        writer.write(REQUEST)
        await asked.wait()
        stop = asyncio.create_task(admin.stop())
        of_the_silent = await asyncio.wait_for(silent.read(), timeout=60)
        assert not stop.done()
        released.set()
        got = await asyncio.wait_for(reader.read(), timeout=60)
        await stop
        silent_writer.close()
        writer.close()
        return of_the_silent, got

    of_the_silent, got = socket_loop.run(converse())
    assert of_the_silent == b""
    assert got.endswith(b"well")


def test_a_stop_gives_an_answer_up_that_does_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "SHUTDOWN_S", 0.05)
    asked = asyncio.Event()

    async def answer(scope: object, receive: object, send: object) -> None:
        asked.set()
        await asyncio.get_running_loop().create_future()

    async def converse() -> bytes:
        admin = AdminServer(answer, name="admin", host="127.0.0.1", port=0, tls=None)
        await admin.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", admin.port)
        writer.write(REQUEST)
        await asked.wait()
        await admin.stop()
        got = await asyncio.wait_for(reader.read(), timeout=60)
        writer.close()
        return got

    assert socket_loop.run(converse()).startswith(b"HTTP/1.1 500 ")
