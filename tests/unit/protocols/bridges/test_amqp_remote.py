"""The AMQP remote beside a foreign broker whose every outcome is known: Proton's own reactor, scripted."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

import pytest
from proton import Condition, Delivery, Link, Message, Terminus, symbol
from proton.handlers import MessagingHandler
from proton.reactor import ApplicationEvent, Container, EventInjector

from sluicegate.messaging.message.outcomes import ACCEPTED, FAILED, REJECTED, RELEASED
from sluicegate.protocols.bridges.remote import Arrival, Ended, Line, News, Outgoing, RemoteFailed, Settlement
from sluicegate.protocols.bridges.remotes.amqp import LINKS_MAX, AmqpRemote
from sluicegate.testing.ports import free_port
from support.bridges.settings import settings

ANSWER_S = 20


class Peer(MessagingHandler):
    """A broker: what it does with a message is the body of the message; what it sends is given."""

    def __init__(self, port: int, to_send: list[Message], knows: tuple[str, ...], *, lowers: bool = False) -> None:
        super().__init__(prefetch=1000, auto_accept=False, auto_settle=False)
        self.outcomes: SimpleQueue[tuple[Any, Any, Any]] = (
            SimpleQueue()
        )  # of what it has sent: tag, state, whether failed
        self.listens = threading.Event()
        self.injector = EventInjector()
        self._port = port
        self._to_send = to_send
        self._knows = knows
        self._lowers = lowers
        self._acceptor: Any = None
        self._container: Any = None

    def on_start(self, event: Any) -> None:
        self._container = event.container
        self._acceptor = event.container.listen(f"127.0.0.1:{self._port}")
        event.container.selectable(self.injector)
        self.listens.set()

    def on_link_opening(self, event: Any) -> None:
        link = event.link
        if link.is_sender:
            link.source.address = link.remote_source.address
            link.source.durability = Terminus.NONDURABLE if self._lowers else link.remote_source.durability
            if self._lowers:
                link.snd_settle_mode = Link.SND_SETTLED
                link.source.capabilities.put_object(symbol("topic"))
            for each in self._knows:
                link.source.outcomes.put_object(symbol(each))
        else:
            link.target.address = link.remote_target.address
            link.target.durability = Terminus.NONDURABLE if self._lowers else link.remote_target.durability

    def on_sendable(self, event: Any) -> None:
        while self._to_send and event.sender.credit:
            event.sender.send(self._to_send.pop(0))

    def on_message(self, event: Any) -> None:
        delivery, word = event.delivery, event.message.body.tobytes().decode()
        if word == "detach":
            event.link.close()
            return
        if word == "modify":
            delivery.local.failed = True
        if word == "full":
            delivery.local.condition = Condition("amqp:resource-limit-exceeded", "the queue is full")
        if word != "settle":
            states = {
                "accept": Delivery.ACCEPTED,
                "reject": Delivery.REJECTED,
                "full": Delivery.REJECTED,
                "release": Delivery.RELEASED,
            }
            delivery.update(states.get(word, Delivery.MODIFIED))
        delivery.settle()

    def on_delivery(self, event: Any) -> None:
        if event.link.is_sender and event.delivery.updated:
            remote = event.delivery.remote
            reason = remote.condition.description if remote.condition else ""
            self.outcomes.put((event.delivery.tag, event.delivery.remote_state, reason or remote.failed))
            event.delivery.settle()

    def on_end(self, event: Any) -> None:
        self._acceptor.close()
        self.injector.close()
        self._container.stop()


class Side:
    """The bridge's side of a remote that runs in its thread."""

    def __init__(self, port: int, **rules: Any) -> None:
        made = settings(remote_url=f"amqp://127.0.0.1:{port}", **rules)
        self._told = threading.Event()
        self.line = Line(window_messages=100, window_bytes=1 << 20, has_news=self._told.set)
        self.news = News()
        self._remote = AmqpRemote(made, self.line)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        reason = ""
        try:
            self._remote.run()
        except RemoteFailed as failure:
            reason = str(failure)
        self.line.ended(Ended(reason))

    def until(self, condition: Any) -> News:
        """Gather news until the condition holds of all of them."""
        deadline_s = time.monotonic() + ANSWER_S
        while not condition(self.news):
            assert time.monotonic() < deadline_s, self.news
            self._told.wait(0.1)
            self._told.clear()
            news, mine = self.line.news(), self.news
            mine.opened = mine.opened or news.opened
            mine.confirmed += news.confirmed
            mine.refused += news.refused
            mine.arrivals += news.arrivals
            mine.lowered += news.lowered
            mine.ended = mine.ended or news.ended
        return self.news

    def send(self, *words: str, topic: str = "q") -> None:
        self.line.publish(
            [
                Outgoing(
                    number=(index + 1) * 256,
                    rule=0,
                    topic=topic,
                    payload=word.encode(),
                    headers=None,
                    path="here/default/b",
                    qos=1,
                    retain=False,
                )
                for index, word in enumerate(words)
            ]
        )


@contextmanager
def bridged(
    *, to_send: list[Message] | None = None, knows: tuple[str, ...] = (), lowers: bool = False, **rules: Any
) -> Iterator[tuple[Peer, Side]]:
    """Run a peer and a remote."""
    port = free_port()
    peer = Peer(port, to_send or [], knows, lowers=lowers)
    container = Container(peer)
    thread = threading.Thread(target=container.run, daemon=True)
    thread.start()
    assert peer.listens.wait(ANSWER_S)
    side = Side(port, **rules)
    side.until(lambda news: news.opened or news.ended)
    try:
        yield peer, side
    finally:
        side.line.close()
        side.thread.join(ANSWER_S)
        peer.injector.trigger(ApplicationEvent("end"))
        thread.join(ANSWER_S)
        assert not side.thread.is_alive()


def test_each_outcome_of_the_foreign_broker_has_its_own() -> None:
    """3.4: what was released or modified comes again; what was rejected never, unless something else is to blame."""
    with bridged(outgoing=[{"queue": "q", "remote_queue": "q"}]) as (_, side):
        side.send("accept", "release", "modify", "reject", "settle", "accept", "full")
        news = side.until(lambda news: len(news.confirmed) + len(news.refused) == 7)
    assert news.confirmed == [256, 1536]
    assert [
        (each.number, each.outcome, each.reason) for each in sorted(news.refused, key=lambda each: each.number)
    ] == [
        (512, RELEASED, "released"),
        (768, FAILED, "modified"),
        (1024, REJECTED, "rejected"),
        (1280, FAILED, "settled without an outcome"),
        (1792, FAILED, "rejected: amqp:resource-limit-exceeded: the queue is full"),
    ]


@pytest.mark.parametrize(
    ("knows", "failed"),
    [
        ((), (Delivery.MODIFIED, True)),
        (("amqp:accepted:list",), (Delivery.RELEASED, False)),  # RabbitMQ 3 says which outcomes it knows
    ],
)
def test_each_settlement_here_has_its_outcome_there(knows: tuple[str, ...], failed: tuple[Any, Any]) -> None:
    to_send = [Message(body="1"), Message(body="2"), Message(body="3")]
    with bridged(to_send=to_send, knows=knows, incoming=[{"remote_queue": "q", "queue": "q"}]) as (peer, side):
        arrivals = side.until(lambda news: len(news.arrivals) == 3).arrivals
        assert [each.payload for each in arrivals] == [b"1", b"2", b"3"]
        outcomes = ((ACCEPTED, ""), (REJECTED, "too large"), (FAILED, ""))
        settle(side, arrivals, outcomes)
        got = sorted(peer.outcomes.get(timeout=ANSWER_S) for _ in arrivals)
    assert got == [("1", Delivery.ACCEPTED, False), ("2", Delivery.REJECTED, "too large"), ("3", *failed)]


def settle(side: Side, arrivals: list[Arrival], outcomes: tuple[tuple[int, str], ...]) -> None:
    """Settle arrivals, each with an outcome and a reason."""
    pairs = zip(arrivals, outcomes, strict=True)
    side.line.settle([Settlement(each.number, outcome, reason) for each, (outcome, reason) in pairs])


def test_an_attach_that_gives_less_than_was_asked_for_is_told() -> None:
    """2.6.3: the attach of the foreign broker says what it really does."""
    rules: dict[str, Any] = {
        "outgoing": [{"queue": "q", "remote_queue": "q"}],
        "incoming": [{"remote_queue": "r", "queue": "r"}],
    }
    with bridged(**rules) as (_, side):
        assert side.news.lowered == []
    with bridged(lowers=True, **rules) as (_, side):
        got = sorted((each.is_incoming, each.rule, each.text) for each in side.news.lowered)
    assert got == [
        (False, 0, "the foreign broker keeps no messages of 'q' over a restart or while the bridge is away"),
        (True, 0, "'r' is no queue at the foreign broker: its capabilities are topic"),
        (True, 0, "the foreign broker keeps no messages of 'r' over a restart or while the bridge is away"),
        (True, 0, "the foreign broker settles messages before they are stored: at most once"),
    ]


def test_no_more_messages_come_than_the_window_has_room_for() -> None:
    to_send = [Message(body=f"{number}") for number in range(20)]
    rules = [{"remote_queue": "q", "queue": "q"}]
    with bridged(to_send=to_send, incoming=rules, window_messages=8) as (_, side):
        side.until(lambda news: len(news.arrivals) == 8)
        time.sleep(0.1)  # for more to come, if it does
        arrivals = side.until(lambda news: True).arrivals
        assert len(arrivals) == 8
        side.line.settle([Settlement(each.number) for each in arrivals])
        side.until(lambda news: len(news.arrivals) == 16)


def test_what_is_no_message_is_an_arrival_with_a_fault() -> None:
    to_send = [Message(body="1", group_id="g" * 300), Message(body="2")]
    with bridged(to_send=to_send, incoming=[{"remote_queue": "q", "queue": "q"}]) as (_, side):
        arrivals = side.until(lambda news: len(news.arrivals) == 2).arrivals
    assert [each.fault for each in arrivals] == ["a group-id of more than 255 bytes", ""]


def test_a_link_of_a_topic_that_ends_takes_its_messages_along_and_no_others() -> None:
    with bridged(outgoing=[{"queue": "q"}]) as (_, side):
        side.send("detach", topic="t/1")
        news = side.until(lambda news: news.refused)
        assert [(each.number, each.outcome) for each in news.refused] == [(256, FAILED)]
        assert news.refused[0].reason == "the foreign broker has ended the link to 't/1'"
        side.send("accept", topic="t/2")
        assert side.until(lambda news: news.confirmed).confirmed == [256]
        assert news.ended is None


def test_links_to_topics_that_are_used_no_more_are_forgotten() -> None:
    with bridged(outgoing=[{"queue": "q"}]) as (_, side):
        for number in range(2 * LINKS_MAX):
            side.send("accept", topic=f"t/{number}")
            side.until(lambda news, count=number + 1: len(news.confirmed) == count)
        time.sleep(0.1)  # for answers to the last of what was closed
        links, link = 0, side._remote._proton.connection.link_head(0)
        while link is not None:
            links, link = links + 1, link.next(0)
    assert links <= LINKS_MAX + 1


def test_a_link_of_a_rule_that_ends_is_the_end_of_the_connection() -> None:
    with bridged(outgoing=[{"queue": "q", "remote_queue": "q"}]) as (_, side):
        side.send("detach")
        ended = side.until(lambda news: news.ended).ended
        assert ended == Ended("the foreign broker has ended the link to 'q' (rule 'q')")


def test_a_foreign_broker_that_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """2.4.5: the idle time-out is `keep_alive_s`."""
    monkeypatch.setattr(Peer, "on_link_opening", lambda peer, event: time.sleep(4))
    port = free_port()
    peer = Peer(port, [], ())
    threading.Thread(target=Container(peer).run, daemon=True).start()
    assert peer.listens.wait(ANSWER_S)
    side = Side(port, outgoing=[{"queue": "q", "remote_queue": "q"}], keep_alive_s=1)
    ended = side.until(lambda news: news.ended).ended
    assert ended is not None
    assert ended.reason.startswith("amqp:resource-limit-exceeded: local-idle-timeout")
