"""Sockets that are passed from one process to another, over real Unix sockets."""

import asyncio
import errno
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest

from sluicegate.protocols.transport.passing.passage import (
    MESSAGE_BYTES_MAX,
    RECEIVED_PER_TURN,
    SOCKETS_MAX,
    WAITING_BYTES_MAX,
    WAITING_MAX,
    Passage,
    PassageFull,
    make_pair,
    packed,
)
from support.network.event_loops import RunOnLoop
from support.network.recording_port import until


class Taken:
    """The receiving end: what has come, and whether the other process is gone."""

    def __init__(self, end: socket.socket) -> None:
        self.messages: list[bytes] = []
        self.sockets: list[socket.socket] = []
        self.gone_count = 0
        self.passage = Passage(end, take=self._take, gone=self._gone)

    def _take(self, message: bytes, fd: int) -> None:
        self.messages.append(message)
        self.sockets.append(socket.socket(fileno=fd))

    def _gone(self) -> None:
        self.gone_count += 1

    def close(self) -> None:
        self.passage.close()
        for each in self.sockets:
            each.close()


def taken_nowhere(_: bytes, fd: int) -> None:
    raise AssertionError(f"{fd} was passed to the wrong end")


@contextmanager
def more_files(count: int) -> Iterator[None]:
    """Let this process have more files than it may have by default."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft + count, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def pass_until_full(passage: Passage, message: bytes, served: socket.socket) -> None:
    """Pass sockets until the passage is full; the one that it does not take is closed."""
    while True:
        fd = os.dup(served.fileno())
        try:
            passage.send(message, fd)
        except PassageFull:
            os.close(fd)  # raises when it is closed already
            raise


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def test_a_socket_arrives_with_its_message_and_works(run: RunOnLoop) -> None:
    async def scenario() -> None:
        ours, theirs = make_pair()
        taken, passage = Taken(theirs), Passage(ours, take=taken_nowhere)
        client, served = socket.socketpair()
        passage.send(b"hello", served.detach())
        await until(lambda: taken.messages == [b"hello"])
        taken.sockets[0].sendall(b"from the other process")
        assert client.recv(100) == b"from the other process"
        assert not taken.sockets[0].get_inheritable()
        taken.close()
        assert client.recv(1) == b""  # the passage has closed its own descriptor
        client.close()
        passage.close()

    run(scenario())


def test_a_message_has_one_byte_at_least_and_a_limit(run: RunOnLoop) -> None:
    async def scenario() -> None:
        ours, theirs = make_pair()
        taken, passage = Taken(theirs), Passage(ours, take=taken_nowhere)
        client, served = socket.socketpair()
        for bad in (b"", bytes(MESSAGE_BYTES_MAX + 1)):
            with pytest.raises(ValueError, match=f"allowed: 1 to {MESSAGE_BYTES_MAX}"):
                passage.send(bad, served.fileno())
        assert is_open(served.fileno())
        passage.send(bytes(MESSAGE_BYTES_MAX), served.detach())
        await until(lambda: [len(each) for each in taken.messages] == [MESSAGE_BYTES_MAX])
        client.close()
        passage.close()
        taken.close()

    run(scenario())


def test_what_the_other_process_does_not_take_yet_waits_in_order(run: RunOnLoop) -> None:
    async def scenario() -> None:
        ours, theirs = make_pair()
        passage = Passage(ours, take=taken_nowhere)
        messages = [number.to_bytes(4, "big") * 2000 for number in range(3 * RECEIVED_PER_TURN)]
        clients = []
        for message in messages:  # 1.5 MB: the kernel keeps a fifth
            client, served = socket.socketpair()
            clients.append(client)
            passage.send(message, served.detach())
        taken = Taken(theirs)
        await until(lambda: taken.messages == messages)
        for number, client in enumerate(clients):
            client.sendall(b"%d" % number)
            assert taken.sockets[number].recv(10) == b"%d" % number
            client.close()
        passage.close()
        taken.close()

    run(scenario())


def test_sockets_that_are_passed_in_one_poll_go_together(run: RunOnLoop) -> None:
    async def scenario() -> None:
        ours, theirs = make_pair()
        passage = Passage(ours, take=taken_nowhere)
        messages = [b"%d" % number for number in range(SOCKETS_MAX + 1)]
        clients = []
        for message in messages:
            client, served = socket.socketpair()
            clients.append(client)
            passage.send(message, served.detach())
        await until(lambda: not passage._waiting)
        for together in (messages[:SOCKETS_MAX], messages[SOCKETS_MAX:]):
            data, fds, _, _ = socket.recv_fds(theirs, MESSAGE_BYTES_MAX, SOCKETS_MAX)
            assert data == packed(together)
            for message, fd in zip(together, fds, strict=True):
                with socket.socket(fileno=fd) as passed:
                    passed.sendall(message)
        for message, client in zip(messages, clients, strict=True):
            assert client.recv(10) == message
            client.close()
        passage.close()
        theirs.close()

    run(scenario())


def test_a_socket_that_cannot_be_taken_costs_no_other(run: RunOnLoop) -> None:
    async def scenario() -> None:
        reported: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["message"]))
        ours, theirs = make_pair()
        passage = Passage(ours, take=taken_nowhere)
        taken: list[bytes] = []

        def take(message: bytes, fd: int) -> None:
            os.close(fd)
            if message == b"bad":
                raise ArithmeticError("planted")
            taken.append(message)

        receiving = Passage(theirs, take=take)
        client, served = socket.socketpair()
        for message in (b"bad", b"good"):
            passage.send(message, os.dup(served.fileno()))
        await until(lambda: taken == [b"good"])
        assert reported == ["a passed socket could not be taken"]
        for each in (client, served, passage, receiving):
            each.close()

    run(scenario())


def test_sockets_wait_while_the_kernel_takes_no_more_of_them(run: RunOnLoop) -> None:
    """ETOOMANYREFS: a user may have only so many descriptors on their way as it may have open files (unix(7))."""

    async def scenario() -> None:
        ours, theirs = make_pair()
        passage = Passage(ours, take=taken_nowhere)
        refusals = iter([OSError(errno.ETOOMANYREFS, "planted")])
        end = passage._end

        class Kernel:
            """The end of the passage, which refuses once."""

            def sendmsg(self, *arguments: Any) -> int:
                for refusal in refusals:
                    raise refusal
                return end.sendmsg(*arguments)

            def __getattr__(self, name: str) -> Any:
                return getattr(end, name)

        passage._end = cast(socket.socket, Kernel())
        client, served = socket.socketpair()
        passage.send(b"hello", served.detach())
        taken = Taken(theirs)
        await until(lambda: taken.messages == [b"hello"])
        assert passage.lost_count == 0
        client.close()
        passage.close()
        taken.close()

    run(scenario())


@pytest.mark.parametrize("size", [1, MESSAGE_BYTES_MAX])
def test_a_passage_that_takes_nothing_is_full_after_a_while(run: RunOnLoop, size: int) -> None:
    async def scenario() -> None:
        ours, theirs = make_pair()
        passage = Passage(ours, take=taken_nowhere)
        client, served = socket.socketpair()
        waiting_max = min(WAITING_MAX, WAITING_BYTES_MAX // size)
        with more_files(2 * WAITING_MAX):
            for _ in range(waiting_max):
                passage.send(bytes(size), os.dup(served.fileno()))
            with pytest.raises(PassageFull):
                pass_until_full(passage, bytes(size), served)
        passage.close()
        theirs.close()
        served.close()
        assert client.recv(1) == b""  # the kernel and the passage have closed all that waited
        client.close()

    run(scenario())


def test_a_socket_for_a_process_that_has_died_is_closed_and_counted(run: RunOnLoop) -> None:
    async def scenario() -> None:
        ours, theirs = make_pair()
        gone = asyncio.Event()
        passage = Passage(ours, take=taken_nowhere, gone=gone.set)
        theirs.close()
        for count in (1, 2):
            client, served = socket.socketpair()
            passage.send(b"hello", served.detach())
            await gone.wait()  # the second one is passed when that is known
            assert client.recv(1) == b""
            assert passage.lost_count == count
            client.close()
        assert not passage.is_open

    run(scenario())


def test_what_a_process_passed_before_it_died_arrives_though_it_had_not_read_all(run: RunOnLoop) -> None:
    """The kernel then reports a reset before what was sent, and that only once."""

    async def scenario() -> None:
        ours, theirs = make_pair()
        unread, passed = socket.socketpair()
        socket.send_fds(ours, [packed([b"never read"])], [unread.fileno()])
        socket.send_fds(theirs, [packed([b"last words"])], [passed.fileno()])
        theirs.close()
        taken = Taken(ours)
        await until(lambda: taken.gone_count == 1)
        assert taken.messages == [b"last words"]
        unread.close()
        passed.close()
        taken.close()

    run(scenario())


def test_a_socket_that_finds_no_descriptor_is_counted_and_the_others_arrive(run: RunOnLoop) -> None:
    async def scenario() -> None:
        ours, theirs = make_pair()
        taken, passage = Taken(theirs), Passage(ours, take=taken_nowhere)
        client, served = socket.socketpair()
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        highest = max(int(name) for name in os.listdir("/proc/self/fd"))
        socket.send_fds(ours, [packed([b"one too many"])], [served.fileno()])
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, limit[1]))
        try:
            taken.passage._read()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limit)
        assert (taken.messages, taken.passage.lost_count) == ([], 1)
        passage.send(b"next", served.detach())
        await until(lambda: taken.messages == [b"next"])
        assert taken.sockets[0].fileno() <= highest + 1  # nothing has leaked
        client.close()
        passage.close()
        taken.close()

    run(scenario())


def test_nothing_comes_from_a_passage_that_was_closed_meanwhile(run: RunOnLoop) -> None:
    async def scenario() -> None:
        ours, theirs = make_pair()
        passage = Passage(ours, take=taken_nowhere)
        came: list[bytes] = []

        def take(message: bytes, fd: int) -> None:
            os.close(fd)
            came.append(message)
            receiving.close()

        receiving = Passage(theirs, take=take)
        client, served = socket.socketpair()
        passage.send(b"first", os.dup(served.fileno()))
        passage.send(b"second", served.detach())
        await until(lambda: not passage.is_open)
        receiving.close()
        assert came == [b"first"]
        assert client.recv(1) == b""
        client.close()

    run(scenario())


PROGRAM = """
import socket, sys
from sluicegate.protocols.transport.passing.passage import MESSAGE_BYTES_MAX, unpacked
end = socket.socket(fileno=int(sys.argv[1]))
data, fds, _, _ = socket.recv_fds(end, MESSAGE_BYTES_MAX, 1)
with socket.socket(fileno=fds[0]) as passed:
    passed.sendall(b"process of its own: " + unpacked(data)[0])
"""


def test_a_socket_is_served_by_another_process(run: RunOnLoop) -> None:
    async def scenario() -> None:
        ours, theirs = make_pair()
        gone = asyncio.Event()
        passage = Passage(ours, take=taken_nowhere, gone=gone.set)
        program = [sys.executable, "-c", PROGRAM, str(theirs.fileno())]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        with subprocess.Popen(program, pass_fds=[theirs.fileno()], env=environment):
            theirs.close()
            client, served = socket.socketpair()
            passage.send(b"hello", served.detach())
            answer = await asyncio.to_thread(lambda: b"".join(iter(lambda: client.recv(100), b"")))
            assert answer == b"process of its own: hello"
            await gone.wait()
        client.close()

    run(scenario())
