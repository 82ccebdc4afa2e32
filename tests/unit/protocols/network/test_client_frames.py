"""The bodies of LINK_CLIENTS, and which connections of clients are newer, or unknown to a neighbor."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.messaging.network.clients import ClientSeen, NetworkClients
from sluicegate.protocols.network.exchange import clients as exchange
from sluicegate.protocols.network.exchange.clients import clients_in

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
seen = st.builds(ClientSeen, texts.filter(bool), st.integers(0, 2**62), texts, st.booleans(), st.booleans())


@given(st.lists(seen, min_size=1, max_size=5))
def test_clients_are_read_as_they_were_written(listed: list[ClientSeen]) -> None:
    assert clients_in(b"".join([exchange._written(each) for each in listed])) == listed


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "LINK_CLIENTS without clients"),
        (b"\0" * 13, "13 bytes behind its last client"),
        (b"\0" * 8 + b"\0\0\0\4\0\0abc", "ends within a name, 1 bytes early"),
        (b"\0" * 14, "a client with a name of 0 bytes"),
        (b"\xff" * 8 + b"\0\0\0\1\0\0a", "and the stamp 18446744073709551615"),
        (b"\0" * 8 + b"\0\0\0\1\0\0\xff", "invalid start byte"),
        ((b"\0" * 8 + b"\0\0\0\1\0\0a") * 1_001, "with more than 1000 clients"),
    ],
)
def test_what_is_damaged_is_refused_with_a_reason(body: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        clients_in(body)


@given(st.integers(0, 5), st.integers(0, 5), st.sampled_from("ac"))
def test_of_two_connections_one_is_newer_for_both_brokers(here_ms: int, there_ms: int, there: str) -> None:
    brokers = {"b": NetworkClients("b"), there: NetworkClients(there)}
    for name, ms in (("b", here_ms), (there, there_ms)):
        brokers[name].connected("mover", "", is_clean=True, wall_ms=ms)
    connections = {name: each.known("mover") for name, each in brokers.items()}
    ends = [
        brokers[name].is_newer(connection, other)
        for name, other in (("b", there), (there, "b"))
        if (connection := connections[other]) is not None
    ]
    assert sorted(ends) == [False, True]


def test_a_neighbor_is_told_again_what_it_may_not_know() -> None:
    clients = NetworkClients("a")
    for name, ms in (("first", 10), ("second", 20), ("third", 30), ("first", 40)):
        clients.connected(name, "", is_clean=True, wall_ms=ms)
    clients.gone("third")
    assert [(each.client_id, each.stamp, each.is_news) for each in clients.since(0)] == [
        ("second", 20, False),
        ("first", 40, False),
    ]
    assert [each.client_id for each in clients.since(21)] == ["first"]
    clients.were_connected([("before", ""), ("second", "")])
    assert [(each.client_id, each.stamp) for each in clients.since(0)] == [("before", 0), ("second", 20), ("first", 40)]


def test_stamps_are_later_than_all_that_were_heard() -> None:
    clients = NetworkClients("a")
    clients.heard(1_000)
    clients.connected("mover", "", is_clean=True, wall_ms=5)
    assert clients.last_stamp == 1_001
