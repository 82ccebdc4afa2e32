"""The flow remote on its own: a resolver that does not answer."""

import socket
import threading
from typing import Any

import pytest

from sluicegate.protocols.bridges.remotes.flow import FlowRemote
from support.bridges.remote_side import RemoteSide

ANSWER_S = 20


def test_a_resolver_that_does_not_answer_holds_up_neither_a_pause_nor_the_end_of_the_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The program waits at its end for threads that are no daemons."""
    asked, answer = threading.Event(), threading.Event()
    resolvers: list[threading.Thread] = []

    def resolve(*_: Any) -> Any:
        resolvers.append(threading.current_thread())
        asked.set()
        answer.wait(ANSWER_S)
        raise socket.gaierror(socket.EAI_AGAIN, "try again")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    side = RemoteSide(FlowRemote, 1, scheme="flow", host="broker.example", outgoing=[{"queue": "q"}])
    side.connect()
    assert asked.wait(ANSWER_S)
    side.line.close()
    assert side.ends().reason == ""
    assert [each.daemon for each in resolvers] == [True]
    answer.set()


def test_a_name_that_is_unknown_is_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(*_: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    side = RemoteSide(FlowRemote, 1, scheme="flow", host="broker.example", outgoing=[{"queue": "q"}])
    side.connect()
    ended = side.ends()
    assert "Name or service not known" in ended.reason
    assert not ended.is_fault
