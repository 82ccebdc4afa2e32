"""What fails beneath streams, or in whoever is called for them, costs one stream, and neither a look nor the loop."""

import asyncio
import errno
import logging
import os
import socket
import struct
from collections.abc import Callable
from typing import Any

import pytest

from sluicegate.protocols.transport.loop.event_loop import SocketLoop, running_sockets
from support.network.event_loops import RunOnLoop
from support.network.recording_port import MIB, Port, Recorded, until


class FullPoll:
    """A poll to which the kernel adds no socket any more (epoll_ctl: ENOSPC, ENOMEM)."""

    def __init__(self, poll: Any) -> None:
        self.poll = poll.poll
        self.modify = poll.modify
        self.unregister = poll.unregister
        self.close = poll.close

    def register(self, fd: int, events: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def resets(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close resets
    client.close()


def test_who_cannot_be_watched_is_gone_and_others_stay() -> None:
    reported: list[dict[str, Any]] = []

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
        port = Port()
        kept_client, kept = await port.meet()
        held_client, held = await port.meet()
        held.stream.pause_reading()
        sockets = running_sockets()
        poll = sockets._poll
        sockets._poll = FullPoll(poll)
        client, server = await port.meet()
        assert isinstance(await server.gone, OSError)
        assert await asyncio.to_thread(client.recv, 1) == b""
        held.stream.write(bytes(16 * MIB))
        held.stream.resume_reading()
        assert isinstance(await held.gone, OSError)
        assert (held.told, held.stream.get_write_buffer_size()) == (["gone"], 0)
        sockets._poll = poll
        kept_client.sendall(b"fine")
        await until(lambda: kept.data == b"fine")
        later_client, later = await port.meet()
        later_client.sendall(b"fine")
        await until(lambda: later.data == b"fine")
        for each in (client, held_client, kept_client, later_client):
            each.close()
        await kept.gone
        await later.gone
        port.accepting.close()

    with asyncio.Runner(loop_factory=SocketLoop) as runner:
        runner.run(asyncio.wait_for(scenario(), 20))
    assert reported == []


def test_a_port_that_cannot_be_watched_again_is_later(
    run: RunOnLoop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("sluicegate.protocols.transport.loop.acceptor.REST_S", 0.01)

    async def scenario() -> None:
        port = Port()
        sockets = running_sockets()
        poll = sockets._poll
        port.accepting._rest(OSError(errno.EMFILE, "Too many open files"))
        sockets._poll = FullPoll(poll)
        with caplog.at_level(logging.WARNING):
            await until(lambda: os.strerror(errno.ENOSPC) in caplog.text)
        sockets._poll = poll
        client, server = await port.meet()
        client.close()
        await server.gone
        port.accepting.close()

    run(scenario())


def test_a_stream_that_is_gone_has_nothing_unsent(run: RunOnLoop) -> None:
    async def scenario() -> None:
        port = Port()
        client, server = await port.meet()
        server.stream.pause_reading()
        server.stream.write(bytes(16 * MIB))
        assert server.stream.get_write_buffer_size() > 0
        resets(client)
        assert isinstance(await server.gone, ConnectionError)
        assert server.stream.get_write_buffer_size() == 0
        port.accepting.close()

    run(scenario())


@pytest.mark.parametrize("fails_on", ["data", "end", "gone"])
def test_a_protocol_that_meets_something_cancelled_ends_its_stream_alone(
    fails_on: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`CancelledError` is no `Exception`: the result of a future that was called off raises it in any callback."""
    reported: list[dict[str, Any]] = []

    def fails(self: Recorded, what: str) -> None:
        if self.fails_on == what:
            raise asyncio.CancelledError(what)

    monkeypatch.setattr(Recorded, "_tell", fails)

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
        port = Port()
        (client, server), (other, kept) = await port.meet(), await port.meet()
        server.fails_on = fails_on
        client.sendall(b"?")
        client.close()
        await server.gone
        other.sendall(b"fine")
        await until(lambda: kept.data == b"fine")
        other.close()
        await kept.gone
        port.accepting.close()

    with asyncio.Runner(loop_factory=SocketLoop) as runner:
        runner.run(asyncio.wait_for(scenario(), 20))
    assert [str(context["exception"]) for context in reported] == [fails_on]


@pytest.mark.parametrize("ends", [KeyboardInterrupt, SystemExit])
def test_who_ends_the_loop_does_not_lose_the_calls_of_others(ends: type[BaseException]) -> None:
    called: list[str] = []

    def leaves() -> None:
        raise ends

    def asks(callback: Callable[[], None]) -> None:
        loop.sockets.call_soon(callback)

    loop = SocketLoop()
    asks(leaves)
    asks(lambda: called.append("other"))
    with pytest.raises(ends):
        loop.run_forever()
    assert called == []
    loop.run_until_complete(asyncio.sleep(0))
    assert called == ["other"]
    loop.close()
