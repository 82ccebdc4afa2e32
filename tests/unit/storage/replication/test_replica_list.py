"""The list of the replicas of a broker, as operators change it."""

import pytest

from sluicegate.storage.replication.ownership.keys import UnreadableKey
from sluicegate.storage.replication.ownership.replica_list import (
    REPLICAS_MAX,
    ListRefused,
    ReplicaList,
    decode_list,
    with_replica,
    without_replica,
)

NAMES = ("a", "b", "c")


def test_a_replica_comes_behind_all_or_before_another_one() -> None:
    assert with_replica(NAMES, "d") == ("a", "b", "c", "d")
    assert with_replica(NAMES, "d", "a") == ("d", "a", "b", "c")


def test_a_replica_that_is_there_moves_before_another_one() -> None:
    assert with_replica(NAMES, "c", "a") == ("c", "a", "b")
    assert with_replica(NAMES, "a", "c") == ("b", "a", "c")


@pytest.mark.parametrize(
    ("name", "before", "said"),
    [
        ("b", "", "'b' is a replica of this broker already"),
        ("d", "x", "'x' is no other replica of this broker: a, b, c"),
        ("b", "b", "'b' is no other replica"),
    ],
)
def test_what_cannot_be_added_is_refused(name: str, before: str, said: str) -> None:
    with pytest.raises(ListRefused, match=said):
        with_replica(NAMES, name, before)


def test_a_broker_has_so_many_replicas_at_most() -> None:
    names = tuple(f"r{number}" for number in range(REPLICAS_MAX))
    with pytest.raises(ListRefused, match="has 16 replicas, and cannot have more"):
        with_replica(names, "d")
    assert with_replica(names, names[1], names[0])[:2] == (names[1], names[0])


def test_the_last_replica_stays() -> None:
    assert without_replica(NAMES, "b") == ("a", "c")
    with pytest.raises(ListRefused, match="'d' is no replica of this broker: a, b, c"):
        without_replica(NAMES, "d")
    with pytest.raises(ListRefused, match="'a' is the only replica"):
        without_replica(("a",), "a")


def test_fields_of_later_releases_are_passed_over() -> None:
    assert decode_list(b'{"broker":"orders","replicas":["a"],"zone":"eu"}', "k") == ReplicaList("orders", ("a",))


@pytest.mark.parametrize(
    "value", [b"", b"[]", b'{"broker":"x"}', b'{"broker":"x","replicas":[]}', b'{"broker":1,"replicas":["a"]}']
)
def test_what_is_no_list_is_refused(value: bytes) -> None:
    with pytest.raises(UnreadableKey, match="k is no list of replicas"):
        decode_list(value, "k")
