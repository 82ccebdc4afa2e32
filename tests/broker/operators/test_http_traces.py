"""Traces of HTTP clients: their requests, and the responses, as operators follow them."""

import asyncio
import base64
import gzip
from collections.abc import AsyncIterator, Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.gateway.operations.clients.clients import wanted_clients
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.operations.traces.exchanges import Exchange, Fields
from sluicegate.gateway.operations.traces.http_messages import HttpMessages
from sluicegate.gateway.operations.traces.words import BODY_BYTES_MAX, PacketWords
from sluicegate.gateway.views.clients.clients import ClientQuery
from sluicegate.gateway.views.clients.traces import TracedPacket
from sluicegate.protocols.http.connection import HttpConnection
from support.broker.inside_client import until
from support.broker.running_broker import RunningBroker
from support.http.client import create, event_stream, http_client, publish
from support.mqtt.raw_client import DEADLINE_S

HELLO = b"POST /t HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\n\r\nhello"


def connection_of(broker: RunningBroker) -> HttpConnection:
    """Return the one connection of HTTP."""
    [connection] = broker.node.http.open_connections()
    return connection


async def following(broker: RunningBroker, payload_bytes: int = 0, vpn: str = "default") -> AsyncIterator[TracedPacket]:
    """Return a trace of the one HTTP client that has begun."""
    operations = NodeOperations(broker.node).in_vpn(vpn)
    trace = await operations.trace_client(connection_of(broker).name, payload_bytes)
    first = await anext(trace)
    assert (first.direction, first.kind) == ("connection", "begun")
    return trace


async def packets(trace: AsyncIterator[TracedPacket], count: int) -> list[TracedPacket]:
    async with asyncio.timeout(DEADLINE_S):
        return [await anext(trace) for _ in range(count)]


class Raw:
    """An HTTP client that says what a test has it say."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def open(cls, broker: RunningBroker) -> "Raw":
        """Return a client whose first request is answered, so that it has a name."""
        raw = cls(*await asyncio.open_connection("127.0.0.1", broker.node.http.listeners["http"].port))
        assert (await raw.asks(HELLO)).startswith(b"HTTP/1.1 200")
        return raw

    async def asks(self, data: bytes) -> bytes:
        """Send bytes, and return the head of a response, whose body has come."""
        self.writer.write(data)
        return await self.head()

    async def head(self, *, has_body: bool = True) -> bytes:
        async with asyncio.timeout(DEADLINE_S):
            head = await self.reader.readuntil(b"\r\n\r\n")
            length = head.partition(b"content-length: ")[2].partition(b"\r\n")[0]
            if length and has_body:
                await self.reader.readexactly(int(length))
            return head

    async def close(self) -> None:
        self.writer.close()
        await self.writer.wait_closed()


@pytest.fixture
def raw(runner: asyncio.Runner, broker: RunningBroker) -> Iterator[Raw]:
    client = runner.run(Raw.open(broker))
    yield client
    runner.run(client.close())


async def test_requests_and_responses_come_with_their_headers(broker: RunningBroker) -> None:
    await create(broker, "q", permission="consume")
    async with http_client(broker) as client:
        await publish(client, "q", "first")
        trace = await following(broker, 3)
        await publish(client, "q", "second", key="k")
        assert (await client.post("/QUEUE/none", content="x")).status_code == 400

        request, response, _, refusal = await packets(trace, 4)

    assert (request.direction, request.kind) == ("received", "request")
    assert request.fields == {"method": "POST", "target": "/QUEUE/q", "version": "HTTP/1.1", "body_bytes": 6}
    headers = {name.lower(): value for name, value in request.properties}
    assert headers["sluicegate-partition-key"] == "k"
    assert (request.payload, request.payload_encoding) == ("sec", "text")
    assert (response.direction, response.kind) == ("sent", "response")
    assert (response.fields["status"], response.fields["reason"]) == (200, "OK")
    assert ("content-length", "0") in response.properties
    assert (refusal.fields["status"], refusal.payload) == (400, "<so")


async def test_credentials_and_cookies_are_never_shown(broker: RunningBroker, raw: Raw) -> None:
    trace = await following(broker, 100)
    secrets = (
        f"Authorization: Basic {base64.b64encode(b'ann:hunter2').decode()}",
        "Proxy-Authorization: hunter2",
        "Cookie: session=hunter2",
        "X-Api-Key: hunter2",
        "X-Auth-Token: hunter2",
    )
    head = "\r\n".join(
        ("POST http://ann:hunter2@127.0.0.1/t?access_token=hunter2&ttl=1 HTTP/1.1", "Host: 127.0.0.1", *secrets)
    )
    await raw.asks(f"{head}\r\nContent-Length: 0\r\n\r\n".encode())
    [request] = await packets(trace, 1)
    assert "hunter2" not in str(request)
    assert base64.b64encode(b"ann:hunter2").decode() not in str(request)
    assert dict(request.properties)["Authorization"] == "Basic 16 bytes, not shown"
    assert dict(request.properties)["Cookie"] == "15 bytes, not shown"
    assert request.fields["target"] == "http://127.0.0.1/t?access_token=7 bytes, not shown&ttl=1"


async def test_a_stream_of_events_is_shown_chunk_by_chunk_also_from_within(broker: RunningBroker) -> None:
    await create(broker, "q", permission="consume", subscriptions=["t"])
    async with http_client(broker) as client, event_stream(client, "/QUEUE/q") as stream:
        trace = await following(broker, 4096)
        device = await broker.connect("device")
        await device.publish("t", b"hello")
        assert (await stream.next("message")).data["payload"] == "hello"
        seen = await packets(trace, 1)
        while "hello" not in (seen[-1].payload or ""):
            seen += await packets(trace, 1)
    assert {(each.direction, each.kind) for each in seen} == {("sent", "chunk")}


async def test_a_chunked_response_begins_with_its_head_and_has_an_end(broker: RunningBroker, raw: Raw) -> None:
    await create(broker, "q", permission="consume")
    trace = await following(broker)
    head = await raw.asks(b"GET /QUEUE/q HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n")
    assert b"transfer-encoding: chunked" in head
    request, response = await packets(trace, 2)
    assert (request.fields["method"], "body_bytes" in request.fields) == ("GET", False)
    assert ("content-type", "text/event-stream") in response.properties
    connection_of(broker).end_reading("the test is over")
    kinds: list[str] = []
    while not kinds or kinds[-1] != "last-chunk":
        kinds += [each.kind for each in await packets(trace, 1)]
    assert set(kinds[:-1]) == {"chunk"}


async def test_a_trace_that_begins_within_a_request_shows_the_next_one(broker: RunningBroker, raw: Raw) -> None:
    raw.writer.write(HELLO[:20])
    await until(connection_of(broker).is_within_packet, "the beginning of a request")
    trace = await following(broker, 10)
    await raw.asks(HELLO[20:])
    await raw.asks(HELLO.replace(b"hello", b"again"))
    first, request, response = await packets(trace, 3)
    assert (first.kind, first.fields["status"]) == ("response", 200)
    assert (request.payload, response.fields["status"]) == ("again", 200)


async def test_pipelined_requests_and_one_for_the_head_alone_have_their_responses(
    broker: RunningBroker, raw: Raw
) -> None:
    """RFC 9112 6.3: the response to a HEAD has no body, whatever its length says."""
    trace = await following(broker)
    head = HELLO.replace(b"POST", b"HEAD").replace(b"Content-Length: 5\r\n\r\nhello", b"\r\n")
    raw.writer.write(HELLO + head + HELLO)
    for has_body in (True, False, True):
        await raw.head(has_body=has_body)
    found = await packets(trace, 6)
    assert [each.fields["method"] for each in found if each.kind == "request"] == ["POST", "HEAD", "POST"]
    assert [each.fields["status"] for each in found if each.kind == "response"] == [200, 405, 200]


async def test_a_client_that_waits_for_100_continue_is_shown_as_it_waits(broker: RunningBroker, raw: Raw) -> None:
    """RFC 9110 10.1.1."""
    trace = await following(broker, 10)
    body_at = HELLO.index(b"hello")
    waits = HELLO[: body_at - 2] + b"Expect: 100-continue\r\n\r\n"
    assert await raw.asks(waits) == b"HTTP/1.1 100 Continue\r\n\r\n"
    await raw.asks(b"hello")
    found = await packets(trace, 4)
    assert [each.kind for each in found] == ["request", "response", "body", "response"]
    assert [found[1].fields["status"], found[2].payload, found[3].fields["status"]] == [100, "hello", 200]


async def test_a_request_for_another_protocol_is_shown_as_it_is_answered(broker: RunningBroker, raw: Raw) -> None:
    """This port answers in HTTP; the port for WebSockets is another one."""
    trace = await following(broker, 10)
    upgrade = b"Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length"
    await raw.asks(HELLO.replace(b"Content-Length", upgrade))
    request, response = await packets(trace, 2)
    assert dict(request.properties)["Upgrade"] == "websocket"
    assert (request.payload, response.fields["status"]) == ("hello", 200)


async def test_requests_for_another_message_vpn_on_the_connection_are_not_shown(
    broker: RunningBroker, raw: Raw
) -> None:
    """A proxy keeps connections, and its next request may be anyone's."""
    await NodeOperations(broker.node).create_message_vpn({"name": "sales"})
    trace = await following(broker, 100)
    theirs = b"X-Whose: theirs\r\nSluicegate-Message-VPN: sales\r\nContent-Length"
    assert b" 200 " in await raw.asks(HELLO.replace(b"Content-Length", theirs))
    user = base64.b64encode(b"ann@sales:hunter2")
    named = b"X-Whose: theirs\r\nAuthorization: Basic " + user + b"\r\nContent-Length"
    await raw.asks(HELLO.replace(b"Content-Length", named))
    await raw.asks(HELLO)
    found = await packets(trace, 6)
    hidden = {"not_shown": "it is for another message VPN"}
    assert [each.fields == hidden for each in found] == [True, True, True, True, False, False]
    assert all((each.properties, each.payload) == ((), None) for each in found[:4])
    assert "theirs" not in str(found)


async def test_a_gzip_body_is_shown_plain_and_a_large_one_arrives_whole(broker: RunningBroker) -> None:
    await create(broker, "q", permission="consume")
    async with http_client(broker) as client:
        await publish(client, "q", "first")
        trace = await following(broker, 5)
        packed = {"Content-Encoding": "gzip"}
        assert (await client.post("/QUEUE/q", content=gzip.compress(b"plain"), headers=packed)).status_code == 200
        assert (await client.post("/QUEUE/q", content=bytes(1_000_000))).status_code == 200
        small, _, large, answer = await packets(trace, 4)
    assert small.payload == "plain"
    assert large.fields["body_bytes"] == 1_000_000
    assert large.size_bytes > 1_000_000
    assert answer.fields["status"] == 200
    totals = await NodeOperations(broker.node).show_queue("q")
    assert totals.ready_count == 3


async def test_the_connection_goes_on_without_the_tap_afterwards(broker: RunningBroker, raw: Raw) -> None:
    connection = connection_of(broker)
    stream = connection.stream
    trace = await following(broker)
    assert connection.stream is not stream
    await trace.aclose()  # type: ignore[attr-defined]  # it is a generator
    assert connection.stream is stream
    assert (await raw.asks(HELLO)).startswith(b"HTTP/1.1 200")
    await raw.close()
    await until(lambda: not wanted_clients(broker.node, "default", ClientQuery()), "the end of the connection")


async def test_the_end_of_the_connection_is_shown(broker: RunningBroker, raw: Raw) -> None:
    trace = await following(broker)
    await raw.asks(HELLO.replace(b"Content-Length", b"Connection: close\r\nContent-Length"))
    await raw.close()
    assert [each.kind for each in await packets(trace, 3)] == ["request", "response", "ended"]


# --- the reader alone ---


def requests() -> HttpMessages:
    def framing(line: list[str], fields: Fields, words: PacketWords) -> tuple[Exchange, bool]:
        method, target, _ = line
        words.fields |= {"method": method, "target": target}
        return Exchange(method, is_shown=True), True

    return HttpMessages("request", framing)


CHUNKED = b"POST /c HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\nT: 1\r\n\r\n"


@given(cuts=st.lists(st.integers(0, 400), max_size=30))
def test_messages_are_cut_wherever_the_network_cuts_them(cuts: list[int]) -> None:
    said = HELLO + CHUNKED + b"\r\n" + HELLO
    edges = sorted({0, len(said), *[each for each in cuts if each < len(said)]})
    reader = requests()
    found = [each for start, end in pairwise(edges) for each in reader.read(said[start:end])]
    assert found == requests().read(said)
    assert [words.kind for words, _ in found] == ["request", "request", "chunk", "chunk", "last-chunk", "request"]
    assert [words.payload for words, _ in found] == [b"hello", None, b"abc", b"0123456789", None, b"hello"]


@given(data=st.lists(st.binary(max_size=200), max_size=20))
def test_what_cannot_be_read_is_said_to_be_so_once(data: list[bytes]) -> None:
    """No bytes, however broken, raise."""
    reader = requests()
    found = [each for piece in (b"G E T\r\n\r\n", *data) for each in reader.read(piece)]
    reader = requests()
    for piece in (CHUNKED[:60], *data):
        reader.read(piece)
    assert found


@pytest.mark.parametrize(
    "said",
    [
        b"x" * (BODY_BYTES_MAX + 1),
        b"nonsense\r\n\r\n",
        CHUNKED[:48] + b"zz\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    ],
)
def test_nothing_is_shown_behind_what_cannot_be_read(said: bytes) -> None:
    reader = requests()
    *_, (words, _) = reader.read(said)
    assert "unreadable" in words.fields
    assert "nonsense" not in str(words)
    assert reader.read(HELLO) == []


def test_a_header_that_goes_on_in_a_further_line_is_one() -> None:
    """RFC 9112 5.2: what it says is what the engine takes it for."""
    ((words, _),) = requests().read(HELLO.replace(b"Host:", b"Sluicegate-Message-VPN:\r\n sales\r\nHost:"))
    assert words.properties[0] == ("Sluicegate-Message-VPN", "sales")
