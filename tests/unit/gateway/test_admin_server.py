"""The HTTP of the admin port, by its sockets."""

import asyncio

import pytest
from starlette.responses import PlainTextResponse

from gateway.admin import server
from gateway.admin.server import AdminServer

REQUEST = b"GET / HTTP/1.1\r\nHost: gateway\r\n\r\n"


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

    assert asyncio.run(converse()).count(b"well") == beginning.count(REQUEST)


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

    assert asyncio.run(converse()).endswith(b"well")
