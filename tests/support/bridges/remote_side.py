"""The bridge's side of a remote that runs in its thread: messages, settlements and news."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from sluicegate.messaging.message.outcomes import ACCEPTED
from sluicegate.protocols.bridges.remote import (
    Ended,
    Line,
    News,
    Outgoing,
    RemoteBroker,
    RemoteFailed,
    Settlement,
)
from sluicegate.protocols.bridges.settings import BridgeSettings
from support.bridges.settings import settings

ANSWER_S: Final = 20


class RemoteSide:
    """Runs one connection of a remote after the other."""

    def __init__(
        self,
        make: Callable[[BridgeSettings, Line], RemoteBroker],
        port: int,
        *,
        scheme: str = "mqtt",
        host: str = "127.0.0.1",
        stale_filters: tuple[str, ...] = (),
        **given: Any,
    ) -> None:
        made = settings(remote_url=f"{scheme}://{host}:{port}", **given)
        made = replace(made, remote=replace(made.remote, stale_filters=stale_filters))
        self._has_news = threading.Event()
        self._turn = threading.Lock()
        self.line = Line(window_messages=made.window_messages, window_bytes=made.window_bytes, has_news=self._notice)
        self.remote = make(made, self.line)
        self.news = News()
        self._last_number = 0
        self._thread = threading.Thread(target=self._run, daemon=True)

    def connect(self) -> None:
        """Begin the next connection, as the bridge does after the end of one."""
        if self._thread.is_alive():
            self._thread.join(ANSWER_S)
        self.news.opened = None
        self.news.ended = None
        self.line.reopen(keeps_messages=self.remote.keeps_unconfirmed)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        reason, is_fault = "", False
        try:
            self.remote.run()
        except RemoteFailed as failure:
            reason = str(failure)
        except Exception as error:  # RemoteThread calls it a fault of ours
            reason, is_fault = repr(error), True
        self.line.wake_with(None)
        self.line.forget_arrivals()
        self.line.ended(Ended(reason, is_fault))

    def _notice(self) -> None:
        with self._turn:
            self._has_news.set()

    @contextmanager
    def held(self, bring_a_message: Callable[[], None]) -> Iterator[None]:
        """Have what is done in here come to the remote in one turn: its thread is held at the news of a message."""
        with self._turn:
            bring_a_message()
            self.until(lambda news: news.arrivals)
            yield

    def until(self, condition: Callable[[News], object]) -> News:
        """Gather news until the condition holds of all of them."""
        deadline_s = time.monotonic() + ANSWER_S
        while not condition(self.news):
            assert time.monotonic() < deadline_s, self.news
            self._has_news.wait(0.1)
            self._has_news.clear()
            news, mine = self.line.news(), self.news
            mine.opened = news.opened or mine.opened
            mine.confirmed += news.confirmed
            mine.refused += news.refused
            mine.arrivals += news.arrivals
            mine.lowered += news.lowered
            for rule, count in news.dropped.items():
                mine.dropped[rule] = mine.dropped.get(rule, 0) + count
            mine.unmatched_count += news.unmatched_count
            mine.ended = news.ended or mine.ended
        return self.news

    def is_open(self) -> None:
        """Wait until the connection is open."""
        self.until(lambda news: news.opened or news.ended)
        assert self.news.opened, self.news

    def ends(self) -> Ended:
        """Wait for the end of the connection."""
        ended = self.until(lambda news: news.ended).ended
        assert ended is not None
        self._thread.join(ANSWER_S)
        return ended

    def send(self, *payloads: bytes, qos: int = 1) -> None:
        """Publish to the topic `out`, as the first rule. Messages are numbered 256, 512 and so on."""
        messages = []
        for payload in payloads:
            self._last_number += 256
            messages.append(
                Outgoing(
                    number=self._last_number,
                    rule=0,
                    topic="out",
                    payload=payload,
                    headers=None,
                    path="",
                    qos=qos,
                    retain=False,
                )
            )
        self.line.publish(messages)

    def arrived(self, *payloads: bytes) -> None:
        """Wait until exactly these have arrived, in all connections so far."""
        got = [each.payload for each in self.until(lambda news: len(news.arrivals) >= len(payloads)).arrivals]
        assert got == [*payloads]

    def settle(self, *payloads: bytes, outcome: int = ACCEPTED) -> None:
        """Settle what has arrived with these payloads last."""
        numbers = {each.payload: each.number for each in self.news.arrivals}
        self.line.settle([Settlement(numbers[each], outcome) for each in payloads])

    def close(self) -> None:
        """Disconnect. The thread ends when the peer has closed the connection too, or soon after."""
        self.line.close()
