"""REST delivery points that push to web servers which break HTTP."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import pytest

from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.protocols.rest.consumer import RestConsumer
from support.broker.named_queues import shows
from support.broker.running_broker import RunningBroker
from support.http.client import create, http_client, publish
from support.http.delivery_points import configure, point
from support.http.stream_server import stream_server
from support.http.web_server import Pushed, WebServer, read_request
from support.mqtt.raw_client import DEADLINE_S
from support.network.certificates import make_certificates

OK: Final = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
FAILED: Final = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n"
MORE_THAN_SOCKETS_TAKE: Final = 9_000_000  # bytes; both ends together


async def push_to(broker: RunningBroker, port: int, **consumer: Any) -> RestConsumer:
    """Have the messages of the queue `q` pushed to a port; return the REST consumer."""
    await configure(broker, point(WebServer(), "q", remote_port=port, **consumer))
    [made] = broker.node.default.rest.running["p"].consumers
    return made


async def test_an_unsolicited_response_settles_no_message(broker: RunningBroker) -> None:
    """A server that answers twice says nothing of the request that comes next."""
    await create(broker, "q")
    requests: list[Pushed] = []
    settled = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            requests.append(await read_request(reader))
            writer.write(FAILED if len(requests) == 2 else OK)
            if len(requests) == 1:
                await settled.wait()
                writer.write(OK)

    async with stream_server(serve) as port, http_client(broker) as client:
        await push_to(broker, port)
        await publish(client, "q", "1")
        await shows(broker, lambda view: view.settled_total == 1)
        settled.set()
        await publish(client, "q", "2")
        await shows(broker, lambda view: view.settled_total == 2)
        assert [each.body for each in requests] == [b"1", b"2", b"2"]


@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
async def test_a_server_that_reads_nothing_holds_up_neither_a_reload_nor_a_stop(broker: RunningBroker) -> None:
    await create(broker, "q")
    reached, over = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(1)
        reached.set()
        await over.wait()

    async with stream_server(serve) as port, http_client(broker) as client, asyncio.timeout(DEADLINE_S):
        await publish(client, "q", "x" * MORE_THAN_SOCKETS_TAKE)
        deeds: list[Callable[[], Awaitable[object]]] = [lambda: configure(broker), broker.restart]
        for deed in deeds:
            await push_to(broker, port)
            await reached.wait()
            reached.clear()
            await deed()
        over.set()
        assert (await NodeOperations(broker.node).show_queue("q")).ready_count == 1


@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
async def test_of_a_request_that_is_given_up_nothing_more_is_sent(broker: RunningBroker) -> None:
    """A connection that waited for its server to read would stay for ever, with the message: one more each try."""
    await create(broker, "q")
    given_up = asyncio.Event()
    received_bytes: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(1)
        await given_up.wait()
        count = 1
        with contextlib.suppress(ConnectionError):
            while piece := await reader.read(1 << 20):
                count += len(piece)
        received_bytes.append(count)

    async with stream_server(serve) as port, http_client(broker) as client, asyncio.timeout(DEADLINE_S):
        await publish(client, "q", "x" * MORE_THAN_SOCKETS_TAKE)
        consumer = await push_to(broker, port, max_post_wait_time_s=1)
        while not consumer.statuses.get("no-answer"):
            await asyncio.sleep(0.01)
        given_up.set()
        while not received_bytes:
            await asyncio.sleep(0.01)
    assert received_bytes[0] < MORE_THAN_SOCKETS_TAKE


async def test_a_server_that_fails_while_it_is_looked_for_is_looked_for_once(
    broker: RunningBroker, tmp_path: Path
) -> None:
    """Else it is taken for one that can be reached, and asked for connections without a pause."""
    await create(broker, "q")
    files = make_certificates(tmp_path)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(files.server, files.server_key)
    loop = asyncio.get_running_loop()
    counts = broker.node.services.runtime.events.record.counts
    told = {"remote_host": "localhost", "tls_enabled": True, "tls_authorities_file": str(files.authority)}

    async def connection() -> socket.socket:
        return (await loop.sock_accept(listening))[0]

    async def shake_hands(held: socket.socket) -> None:
        transport, _ = await loop.connect_accepted_socket(asyncio.Protocol, held, ssl=tls)
        transport.close()

    async with http_client(broker) as client, asyncio.timeout(DEADLINE_S):
        with socket.create_server(("127.0.0.1", 0)) as listening:
            listening.setblocking(False)
            await publish(client, "q", "1", "2")
            consumer = await push_to(broker, listening.getsockname()[1], **told)
            await shake_hands(await connection())
            first, second = await connection(), await connection()
            first.close()
            look = await connection()
            second.close()
            while consumer.in_use_count:
                await asyncio.sleep(0.01)
            await shake_hands(look)
            refused_count = 0
            while counts["VPN_REST_CONSUMER_DOWN"] < 2:
                with contextlib.suppress(BlockingIOError):
                    listening.accept()[0].close()
                    refused_count += 1
                await asyncio.sleep(0)
            assert refused_count <= 2  # the one for each message


async def test_a_put_whose_connection_breaks_is_pushed_again_as_redelivered(broker: RunningBroker) -> None:
    """aiohttp would make the request again by itself: as a first delivery, and without an attempt that counts."""
    await create(broker, "q")
    requests: list[Pushed] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            requests.append(await read_request(reader))
            if len(requests) == 2:
                return  # on a connection that was used before
            writer.write(OK)

    async with stream_server(serve) as port, http_client(broker) as client:
        await push_to(broker, port, http_method="put")
        await publish(client, "q", "1", "2")
        await shows(broker, lambda view: view.settled_total == 2)
        assert [each.body for each in requests] == [b"1", b"2", b"2"]
        assert [each.headers.get("sluicegate-delivery-count") for each in requests] == [None, None, "2"]


async def test_the_beginning_of_an_unsolicited_response_ends_its_connection(broker: RunningBroker) -> None:
    """What follows it could answer the next request."""
    await create(broker, "q")
    requests: list[tuple[bytes, int]] = []  # bodies, and the connections that they came on
    connections: list[asyncio.StreamWriter] = []
    settled = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        while True:
            requests.append(((await read_request(reader)).body, len(connections)))
            writer.write(OK)
            if len(requests) == 1:
                await settled.wait()
                writer.write(OK[:-1])

    async with stream_server(serve) as port, http_client(broker) as client:
        await push_to(broker, port)
        await publish(client, "q", "1")
        await shows(broker, lambda view: view.settled_total == 1)
        before = len(connections)
        settled.set()
        await publish(client, "q", "2")
        await shows(broker, lambda view: view.settled_total == 2)
        assert [body for body, _ in requests] == [b"1", b"2"]
        assert requests[1][1] > before >= requests[0][1]
