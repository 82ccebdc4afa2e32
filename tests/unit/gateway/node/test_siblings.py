"""What one broker of a machine knows of the others, and the sockets that they pass to it."""

import os
import socket

import pytest

from sluicegate.gateway.node.siblings import Holdings, Released, SiblingAway, Siblings
from sluicegate.messaging.clients.homes import home_of
from sluicegate.protocols.transport.interface import SIBLINGS, PeerRecord
from sluicegate.protocols.transport.passing.passage import make_pair, packed
from sluicegate.protocols.transport.passing.passed_peer import LINK, MQTT_CLIENT, encode_peer
from support.network.event_loops import RunOnLoop
from support.network.recording_port import until

NAMES = ("machine", "machine-2", "machine-3")
NOTHING = Holdings({}, frozenset())
PEER = PeerRecord("mqtt", "192.0.2.1", 4711)


def named_at(home: int) -> str:
    """Return a name that belongs to one of the brokers."""
    return next(name for name in map("name-{}".format, range(100)) if home_of(name, len(NAMES)) == home)


def test_a_queue_belongs_to_the_broker_that_has_it() -> None:
    holdings = {1: NOTHING, 2: Holdings({"sales": frozenset({named_at(1)})}, frozenset()), 3: NOTHING}
    for number in (1, 2, 3):
        siblings = Siblings(number, NAMES, len(NAMES))
        siblings.begin(holdings)
        assert siblings.is_home_of_queue("sales", named_at(1)) == (number == 2)
        assert siblings.is_home_of_queue("default", named_at(1)) == (number == 1)


@pytest.mark.parametrize("home", [1, 2, 3])
def test_a_queue_that_nobody_has_belongs_to_one_broker(home: int) -> None:
    all_siblings = [Siblings(number, NAMES, len(NAMES)) for number in (1, 2, 3)]
    assert [each.number for each in all_siblings if each.is_home_of_queue("default", named_at(home))] == [home]


def test_of_two_brokers_that_have_a_queue_one_is_its_home() -> None:
    """A copied data folder gives both of them one."""
    siblings = Siblings(2, NAMES, len(NAMES))
    both = Holdings({"default": frozenset({"orders"})}, frozenset())
    siblings.begin({2: both, 3: both})
    assert siblings.is_home_of_queue("default", "orders")


def test_a_session_stays_at_the_broker_that_has_it_until_that_starts_without() -> None:
    siblings = Siblings(1, NAMES, len(NAMES))
    siblings.begin({1: NOTHING, 2: Holdings({}, frozenset({named_at(1), named_at(2)})), 3: NOTHING})
    assert siblings.homes.home_of(named_at(1)) == 2
    assert siblings.homes.exceptions_count == 1
    siblings.learn(2, NOTHING)
    assert siblings.homes.home_of(named_at(1)) == 1


def test_a_retired_broker_is_home_of_what_it_has_until_it_has_gone() -> None:
    holdings = {3: Holdings({"default": frozenset({"orders"})}, frozenset({"a", "b"}), frozenset({"p"}))}
    staying, retired = Siblings(1, NAMES, 1), Siblings(3, NAMES, 1)
    for each in (staying, retired):
        each.begin(holdings)
    assert (staying.is_retired, retired.is_retired) == (False, True)
    assert retired.is_home_of_queue("default", "orders")
    assert not retired.is_home_of_queue("default", "new")
    assert staying.homes.home_of("a") == 3
    staying.released(3, Released(sessions=frozenset({"a"})))
    assert (staying.homes.home_of("a"), staying.homes.home_of("b")) == (1, 3)
    assert list(staying.others) == ["machine-2", "machine-3"]
    staying.gone(3)
    assert staying.homes.home_of("b") == 1
    assert staying.publisher_homes.home_of("p") == 1
    assert staying.is_home_of_queue("default", "orders")
    assert list(staying.others) == ["machine-2"]


def test_sockets_that_come_before_the_node_takes_them_wait(run: RunOnLoop) -> None:
    async def scenario() -> None:
        siblings = Siblings(1, NAMES, len(NAMES))
        ours, theirs = make_pair()
        siblings.met(2, ours)
        came: list[tuple[str, PeerRecord, bytes]] = []

        def takes(kind: str, fd: int, peer: PeerRecord, data: bytes) -> None:
            os.close(fd)
            came.append((kind, peer, data))

        def passes(message: bytes) -> None:
            client, served = socket.socketpair()
            socket.send_fds(theirs, [packed([message])], [served.fileno()])
            client.close()
            served.close()

        passes(LINK)
        passes(MQTT_CLIENT + encode_peer(PEER, b"CONNECT"))
        await until(lambda: len(siblings._early) == 2)
        siblings.take_clients(MQTT_CLIENT, lambda fd, peer, data: takes("client", fd, peer, data))
        siblings.take_links(lambda fd, peer, data: takes("link", fd, peer, data))
        passes(MQTT_CLIENT + encode_peer(PEER, b"later"))
        await until(lambda: len(came) == 3)
        assert [(kind, peer.listener, peer.host, data) for kind, peer, data in came] == [
            ("client", "mqtt", "192.0.2.1", b"CONNECT"),
            ("link", SIBLINGS, "machine-2", b""),
            ("client", "mqtt", "192.0.2.1", b"later"),
        ]
        siblings.close()
        theirs.close()

    run(scenario())


def test_sockets_that_the_node_never_takes_are_closed_as_it_stops(run: RunOnLoop) -> None:
    async def scenario() -> None:
        siblings = Siblings(1, NAMES, len(NAMES))
        ours, theirs = make_pair()
        siblings.met(2, ours)
        client, served = socket.socketpair()
        socket.send_fds(theirs, [packed([MQTT_CLIENT + encode_peer(PEER, b"")])], [served.fileno()])
        served.close()
        await until(lambda: len(siblings._early) == 1)
        siblings.close()
        assert client.recv(1) == b""
        client.close()
        theirs.close()

    run(scenario())


def test_a_broker_is_away_until_it_is_met_and_when_it_has_died(run: RunOnLoop) -> None:
    async def scenario() -> None:
        siblings = Siblings(1, NAMES, len(NAMES))
        assert siblings.passage_to(2) is None
        with pytest.raises(SiblingAway):
            siblings.connect("machine-2")
        ours, theirs = make_pair()
        siblings.met(2, ours)
        passage = siblings.passage_to(2)
        assert passage is not None
        assert passage.is_open
        siblings.connect("machine-2").close()
        theirs.close()
        await until(lambda: not passage.is_open)
        with pytest.raises(SiblingAway):
            siblings.connect("machine-2")
        again, others = make_pair()
        siblings.met(2, again)
        assert siblings.passage_to(2) is not passage
        siblings.close()
        others.close()

    run(scenario())
