"""Looks at sockets, and TCP streams over real loopback sockets, by every kind of poll there is."""

import asyncio
import fcntl
import gc
import logging
import resource
import socket
import struct
import sys
import termios
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.actors.runtime.clock import Clock
from sluicegate.protocols.transport.loop.event_loop import SocketLoop, running_sockets
from sluicegate.protocols.transport.loop.selector import SocketSelector
from sluicegate.protocols.transport.loop.tcp import (
    POLL_NS_MAX,
    READ_BYTES_MAX,
    READ_BYTES_MIN,
    READ_BYTES_SMALL,
    TcpTransport,
)
from support.network.event_loops import RunOnLoop, run_on
from support.network.recording_port import MIB, Port, until


async def looks(count: int) -> None:
    """Let the loop look at its sockets a number of times."""
    for _ in range(count):
        await asyncio.sleep(0)


async def read_to_end(client: socket.socket) -> bytes:
    return await asyncio.to_thread(lambda: b"".join(iter(lambda: client.recv(MIB), b"")))


def unread_bytes(fd: int) -> int:
    """Return how much has come at a socket that nobody has read."""
    return int.from_bytes(fcntl.ioctl(fd, termios.FIONREAD, bytes(4)), sys.byteorder)


@pytest.mark.parametrize("kind", ["epoll", "poll"])
@given(
    writes=st.lists(
        st.one_of(
            st.binary(max_size=50),
            st.integers(min_value=1, max_value=MIB).map(lambda size: bytes([size % 251]) * size),
            st.lists(st.binary(max_size=3000), max_size=200),
        ),
        max_size=12,
    )
)
def test_written_bytes_arrive_whole_and_in_order(kind: str, writes: list[bytes | list[bytes]]) -> None:
    """Law: whatever sizes a protocol writes, one by one or together, and however slowly the peer reads."""

    async def scenario() -> None:
        port = Port()
        client, server = await port.meet()
        for written in writes:
            if isinstance(written, list):
                server.stream.writelines(written)
            else:
                server.stream.write(written)
        server.stream.close()
        expected = b"".join([b"".join(each) if isinstance(each, list) else each for each in writes])
        assert await read_to_end(client) == expected
        assert await server.gone is None
        assert server.stream.get_write_buffer_size() == 0
        client.close()
        port.accepting.close()

    run_on(kind, scenario())


def test_a_protocol_is_paused_when_much_waits_and_resumed_when_there_is_room(run: RunOnLoop) -> None:
    async def scenario() -> None:
        port = Port()
        client, server = await port.meet()
        server.stream.set_write_buffer_limits(high=MIB, low=1000)
        server.stream.write(bytes(16 * MIB))
        assert server.told == ["full"]
        assert server.stream.get_write_buffer_size() > MIB
        reading = asyncio.create_task(read_to_end(client))
        await until(lambda: server.told == ["full", "room"])
        assert server.stream.get_write_buffer_size() <= 1000
        server.stream.close()
        assert len(await reading) == 16 * MIB
        client.close()
        port.accepting.close()

    run(scenario())


def test_our_end_comes_behind_what_is_unsent_and_the_peer_may_go_on(run: RunOnLoop) -> None:
    async def scenario() -> None:
        port = Port()
        client, server = await port.meet()
        server.stream.write(bytes(16 * MIB))
        server.stream.write_eof()
        server.stream.write(b"too late")
        assert len(await read_to_end(client)) == 16 * MIB
        client.sendall(b"more")
        await until(lambda: server.data == b"more")
        client.close()
        assert await server.gone is None
        assert server.told == ["full", "room", "data", "end", "gone"]
        port.accepting.close()

    run(scenario())


def test_read_sizes_grow_and_shrink_with_what_a_client_sends(run: RunOnLoop) -> None:
    async def scenario() -> None:
        port = Port()
        client, server = await port.meet()
        sending = asyncio.create_task(asyncio.to_thread(client.sendall, bytes(16 * MIB)))
        await until(lambda: len(server.data) == 16 * MIB)
        await sending
        assert READ_BYTES_MIN < max(server.reads) <= READ_BYTES_MAX
        for number in range(60):
            client.sendall(b"x")
            await until(lambda: len(server.data) == 16 * MIB + number + 1)  # noqa: B023
        assert server.stream._read_bytes == READ_BYTES_SMALL
        client.close()
        await server.gone
        port.accepting.close()

    run(scenario())


@pytest.mark.parametrize("batch_bytes", [4000, 40_000])
def test_a_batch_is_read_in_one_piece_although_small_messages_come_between(run: RunOnLoop, batch_bytes: int) -> None:
    """A link between busy brokers brings batches of messages, and acknowledgements of those of the other way."""

    async def scenario() -> None:
        port = Port()
        client, server = await port.meet()

        async def send(size: int) -> None:
            expected = len(server.data) + size
            server.stream.pause_reading()
            client.sendall(bytes(size))
            await until(lambda: unread_bytes(server.stream._fd) == size)
            server.stream.resume_reading()
            await until(lambda: len(server.data) == expected)

        await send(batch_bytes)
        await send(batch_bytes)
        server.reads.clear()
        for _ in range(20):
            for size in (28, 28, batch_bytes):
                await send(size)
        assert server.reads == [28, 28, batch_bytes] * 20
        client.close()
        await server.gone
        port.accepting.close()

    run(scenario())


class WorkClock(Clock):
    """Goes on by what reads of this size cost."""

    def __init__(self) -> None:
        self.ns = 0

    def now_ns(self) -> int:
        return self.ns


def test_who_fills_a_read_is_read_again_in_the_same_look() -> None:
    """Several large messages that have come are one batch, and no other stream waits for long."""

    async def scenario() -> None:
        port = Port()
        client, server = await port.meet()
        await looks(1)
        client.sendall(bytes(READ_BYTES_SMALL + 5))
        await looks(1)
        assert server.reads == [READ_BYTES_SMALL, 5]
        client.close()
        await server.gone
        port.accepting.close()

    with asyncio.Runner(loop_factory=lambda: SocketLoop(SocketSelector(clock=WorkClock()))) as runner:
        runner.run(scenario())


@pytest.mark.parametrize(("ns_per_kib", "bytes_max"), [(1, READ_BYTES_MAX), (POLL_NS_MAX // 100, 4 * READ_BYTES_MIN)])
def test_who_makes_much_work_is_read_in_smaller_pieces_and_others_have_their_turn(
    ns_per_kib: int, bytes_max: int
) -> None:
    """256 KiB of tiny packets may be half a second; sixteen such reads were one look."""
    clock = WorkClock()
    of_looks: list[int] = []

    class CountingLoop(SocketLoop):
        def _run_once(self) -> None:
            before_ns = clock.ns
            super()._run_once()  # type: ignore[misc]  # typeshed has no private methods
            of_looks.append(clock.ns - before_ns)

    async def scenario() -> None:
        port = Port()
        client, server = await port.meet()
        server.at_work = lambda size: setattr(clock, "ns", clock.ns + size // 1024 * ns_per_kib)
        sending = asyncio.create_task(asyncio.to_thread(client.sendall, bytes(4 * MIB)))
        await until(lambda: len(server.data) == 4 * MIB)
        await sending
        assert max(server.reads) <= bytes_max
        assert server.data == bytes(4 * MIB)
        client.close()
        await server.gone
        port.accepting.close()

    with asyncio.Runner(loop_factory=lambda: CountingLoop(SocketSelector(clock=clock))) as runner:
        runner.run(scenario())
    assert max(of_looks) <= 2 * POLL_NS_MAX


def test_nothing_is_read_while_reading_is_paused_and_everything_afterwards(run: RunOnLoop) -> None:
    async def scenario() -> None:
        port = Port()
        client, server = await port.meet()
        server.stream.pause_reading()
        client.sendall(b"waits")
        client.shutdown(socket.SHUT_WR)
        await looks(20)
        assert server.told == []
        server.stream.resume_reading()
        assert await server.gone is None
        assert (server.told, bytes(server.data)) == (["data", "end", "gone"], b"waits")
        client.close()
        port.accepting.close()

    run(scenario())


class CountingPoll:
    """Counts how often it has looked."""

    def __init__(self, poll: Any) -> None:
        self._poll = poll
        self.looks = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._poll, name)

    def poll(self, *args: Any) -> Any:
        self.looks += 1
        return self._poll.poll(*args)


@pytest.mark.parametrize("has_epoll", [True, False])
def test_a_paused_stream_whose_peer_resets_it_costs_no_looks_and_is_kept(has_epoll: bool) -> None:
    """A failure is told in each look, asked for or not, as long as a socket is watched for anything."""

    async def scenario() -> None:
        port = Port()
        client, server = await port.meet()
        gone = server.gone
        server.stream.pause_reading()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close resets
        client.close()
        sockets = running_sockets()
        del server
        gc.collect()  # nobody else holds the stream
        polls = sockets._poll = CountingPoll(sockets._poll)
        await asyncio.sleep(0.1)
        assert polls.looks < 10
        (watcher,) = [each for each in sockets._watchers if isinstance(each, TcpTransport)]
        watcher.resume_reading()
        assert isinstance(await gone, ConnectionResetError)
        port.accepting.close()

    with asyncio.Runner(loop_factory=lambda: SocketLoop(SocketSelector(has_epoll=has_epoll))) as runner:
        runner.run(scenario())


def test_writing_to_a_peer_that_has_reset_the_stream_ends_it(run: RunOnLoop) -> None:
    async def scenario() -> None:
        port = Port()
        client, server = await port.meet()
        server.stream.pause_reading()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        server.stream.write(b"?")
        assert server.stream.is_closing()
        assert server.told == []  # not within the write
        assert isinstance(await server.gone, ConnectionError)
        server.stream.write(b"nobody")
        server.stream.writelines([b"no", b"body"])
        server.stream.abort()
        assert server.told == ["gone"]
        port.accepting.close()

    run(scenario())


@pytest.mark.parametrize("fails_on", ["data", "end", "full", "room", "gone"])
def test_a_failure_of_a_protocol_is_reported_and_ends_its_stream_alone(fails_on: str) -> None:
    reported: list[dict[str, Any]] = []

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
        port = Port()
        (client, server), (other, kept) = await port.meet(), await port.meet()
        server.fails_on = fails_on
        server.stream.set_write_buffer_limits(high=MIB, low=1000)
        if fails_on in ("full", "room"):
            server.stream.write(bytes(16 * MIB))
            await asyncio.to_thread(lambda: [client.recv(MIB) for _ in range(10_000)][-1])
        client.sendall(b"?") if fails_on == "data" else None
        client.close()
        await server.gone
        other.sendall(b"fine")
        await until(lambda: kept.data == b"fine")
        other.close()
        await kept.gone
        port.accepting.close()

    with asyncio.Runner(loop_factory=SocketLoop) as runner:
        runner.run(scenario())
    assert [str(context["exception"]) for context in reported] == [fails_on]


def test_without_file_descriptors_new_connections_wait_and_are_accepted_later(
    run: RunOnLoop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("sluicegate.protocols.transport.loop.acceptor.REST_S", 0.05)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)

    async def scenario() -> None:
        port = Port()
        client = port.dial()
        with socket.socket() as highest:
            resource.setrlimit(resource.RLIMIT_NOFILE, (highest.fileno(), limits[1]))
        try:
            with caplog.at_level(logging.WARNING):
                await until(lambda: "Too many open files" in caplog.text)
            assert port.came.empty()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        server = await port.came.get()
        client.sendall(b"in")
        await until(lambda: server.data == b"in")
        client.close()
        await server.gone
        port.accepting.close()

    run(scenario())


def test_nothing_is_unsent_any_more_when_a_peer_resets_a_stream_that_has_much_to_send(run: RunOnLoop) -> None:
    async def scenario() -> None:
        port = Port()
        client, server = await port.meet()
        server.stream.writelines([bytes(MIB)] * 16)
        client.recv(MIB)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        assert isinstance(await server.gone, ConnectionError)
        assert server.stream.get_write_buffer_size() == 0
        port.accepting.close()

    run(scenario())


def test_a_stream_knows_both_addresses_until_it_is_gone(run: RunOnLoop) -> None:
    async def scenario() -> None:
        port = Port()
        client, server = await port.meet()
        assert server.stream.get_extra_info("peername") == client.getsockname()
        assert server.stream.get_extra_info("sockname") == client.getpeername()
        assert server.stream.get_extra_info("cipher", "none") == "none"
        client.close()
        await server.gone
        assert server.stream.get_extra_info("peername") is None
        port.accepting.close()

    run(scenario())


def test_callbacks_run_at_once_in_order_and_whichever_of_them_fail(run: RunOnLoop) -> None:
    async def scenario() -> None:
        reported: list[str] = []
        loop = asyncio.get_running_loop()
        handler = loop.get_exception_handler()
        loop.set_exception_handler(lambda _, context: reported.append(str(context["exception"])))
        called: list[int] = []

        def fails() -> None:
            raise RuntimeError("one of them")

        sockets = running_sockets()
        done = loop.create_future()
        sockets.call_soon(lambda: called.append(1))
        sockets.call_soon(fails)
        sockets.call_soon(lambda: sockets.call_soon(lambda: done.set_result(None)))
        sockets.call_soon(lambda: called.append(2))
        await done
        assert (called, reported) == ([1, 2], ["one of them"])
        loop.set_exception_handler(handler)

    run(scenario())


def test_asyncios_own_readers_work_beside_streams(run: RunOnLoop) -> None:
    async def scenario() -> None:
        ours, theirs = socket.socketpair()
        seen: list[bytes] = []
        asyncio.get_running_loop().add_reader(ours, lambda: seen.append(ours.recv(10)))
        port = Port()
        client, server = await port.meet()
        theirs.sendall(b"asyncio")
        client.sendall(b"stream")
        await until(lambda: (seen, bytes(server.data)) == ([b"asyncio"], b"stream"))
        asyncio.get_running_loop().remove_reader(ours)
        client.close()
        await server.gone
        port.accepting.close()
        ours.close()
        theirs.close()

    run(scenario())


def test_a_guarded_loop_serves_what_asyncio_watches_and_no_stream_until_it_may(run: RunOnLoop) -> None:
    async def scenario() -> None:
        may_serve = True
        asked: list[bool] = []

        def ask() -> bool:
            asked.append(may_serve)
            return may_serve

        port = Port()
        client, server = await port.meet()
        running_sockets().guard(ask)
        may_serve = False
        client.sendall(b"for the owner")
        other, its_end = socket.socketpair()
        other.setblocking(False)
        its_end.sendall(b"for asyncio")
        assert await asyncio.get_running_loop().sock_recv(other, 100) == b"for asyncio"
        await looks(3)
        assert server.data == b""
        may_serve = True
        await until(lambda: bool(server.data))
        assert server.data == b"for the owner"
        assert False in asked
        for end in (client, other, its_end):
            end.close()
        server.stream.close()
        await server.gone
        port.accepting.close()

    run(scenario())


def test_a_port_on_another_loop_is_refused_in_words() -> None:
    async def scenario() -> None:
        with pytest.raises(TypeError, match="SocketLoop"):
            running_sockets()

    asyncio.run(scenario())


def test_without_epoll_there_is_poll() -> None:
    loop = SocketLoop(SocketSelector(has_epoll=False))
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
