"""A stream to another process of the machine, through the passage to it."""

import asyncio
import os

import pytest

from sluicegate.protocols.transport.passing.moves import open_stream
from sluicegate.protocols.transport.passing.passage import Passage, make_pair
from support.network.event_loops import RunOnLoop


def open_files() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def test_the_other_process_gets_the_other_end_with_the_message(run: RunOnLoop) -> None:
    async def scenario() -> None:
        ours, theirs = make_pair()
        came: asyncio.Future[tuple[bytes, int]] = asyncio.get_running_loop().create_future()
        here = Passage(ours, take=lambda message, fd: None)
        there = Passage(theirs, take=lambda message, fd: came.set_result((message, fd)))
        stream = open_stream(here, b"P and more")
        stream.write(b"through the pair")
        message, fd = await came
        assert (message, os.read(fd, 100)) == (b"P and more", b"through the pair")
        stream.abort()
        await asyncio.sleep(0)
        os.close(fd)
        here.close()
        there.close()

    run(scenario())


def test_no_stream_takes_files_that_are_kept_back(run: RunOnLoop) -> None:
    async def scenario() -> None:
        ours, theirs = make_pair()
        here = Passage(ours, take=lambda message, fd: None)
        before = open_files()
        with pytest.raises(OSError, match="Too many open files"):
            open_stream(here, b"P", files_max=3)
        assert open_files() == before
        here.close()
        theirs.close()

    run(scenario())
