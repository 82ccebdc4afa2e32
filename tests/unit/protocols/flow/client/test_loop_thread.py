"""The thread that a blocking client runs its event loop on."""

import asyncio
import threading

import pytest

from sluicegate.protocols.flow.client.blocking.loop_thread import LoopThread
from sluicegate.protocols.flow.client.errors import ClientClosed

CALLERS = 8
TIMES = 20
WITHIN_S = 60


def call_until_refused(thread: LoopThread, begin: threading.Barrier, refused: list[str]) -> None:
    begin.wait(WITHIN_S)
    try:
        while True:
            thread.run(asyncio.sleep(0))
    except ClientClosed as error:
        refused.append(str(error))


def test_each_call_that_comes_while_the_thread_ends_has_a_result_or_is_refused() -> None:
    """As of workers that close their consumers while another thread closes the client."""
    for _ in range(TIMES):
        thread, begin, refused = LoopThread(), threading.Barrier(CALLERS + 1), list[str]()
        given = (thread, begin, refused)
        callers = [threading.Thread(target=call_until_refused, args=given, daemon=True) for _ in range(CALLERS)]
        for each in callers:
            each.start()
        begin.wait(WITHIN_S)
        thread.stop()
        for each in callers:
            each.join(WITHIN_S)
        assert refused == ["the client was closed"] * CALLERS


def test_a_thread_that_has_ended_ends_again_without_harm() -> None:
    thread = LoopThread()
    thread.stop()
    thread.stop()
    with pytest.raises(ClientClosed, match="the client was closed"):
        thread.run(asyncio.sleep(0))
    with pytest.raises(ClientClosed, match="the client was closed"):
        thread.call(print)
