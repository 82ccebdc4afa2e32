"""What replicas hear of each other, on a clock of the test."""

from dataclasses import replace

from sluicegate.gateway.cluster.membership.members import (
    AWAY,
    GONE_S,
    OWNER,
    Members,
    decode_state,
    encode_state,
)
from support.cores.replica_states import WARM


def members() -> Members:
    return Members(("a", "b", "c"), "a", "of a")


def test_a_state_is_read_back_and_fields_of_later_releases_are_passed_over() -> None:
    data = encode_state(WARM)
    assert decode_state(data) == WARM
    assert decode_state(data[:-1] + b',"zone":"eu"}') == WARM


def test_what_is_no_state_is_passed_over() -> None:
    assert decode_state(b"") is None
    assert decode_state(b'{"name":"b"}') is None
    assert decode_state(b"[]") is None


def test_a_replica_that_says_nothing_is_not_there_any_more() -> None:
    heard = members()
    heard.hear(WARM, 10.0)
    assert list(heard.present(10.0 + GONE_S)) == ["b"]
    assert heard.present(10.1 + GONE_S) == {}


def test_a_replica_that_ends_says_so() -> None:
    heard = members()
    heard.hear(WARM, 10.0)
    heard.hear(replace(WARM, role=AWAY, caught_up=False), 10.1)
    assert heard.present(10.1) == {}


def test_a_successor_has_room_if_there_is_one_with_room() -> None:
    heard = members()
    full = replace(WARM, has_room=False)
    assert heard.successor(10.0) is None
    heard.hear(full, 10.0)
    assert (heard.successor(10.0), heard.successor_with_room(10.0)) == ("b", None)
    heard.hear(replace(full, name="c", caught_up=False, has_room=True), 10.0)
    assert (heard.successor(10.0), heard.successor_with_room(10.0)) == ("b", None)
    heard.hear(replace(full, name="c", has_room=True), 10.0)
    assert (heard.successor(10.0), heard.successor_with_room(10.0)) == ("c", "c")


def test_a_replica_of_a_release_that_does_not_say_so_has_room() -> None:
    state = decode_state(encode_state(replace(WARM, has_room=False)).replace(b'"has_room":false', b'"other":1'))
    assert state is not None
    assert state.has_room


def test_a_name_that_is_not_configured_is_not_listened_to() -> None:
    heard = members()
    heard.hear(replace(WARM, name="x"), 10.0)
    assert heard.present(10.0) == {}


def test_of_two_owners_the_later_one_is_believed() -> None:
    heard = members()
    heard.hear(replace(WARM, name="b", role=OWNER, epoch=7), 10.0)
    heard.hear(replace(WARM, name="c", role=OWNER, epoch=9), 10.0)
    owner = heard.owner(10.0)
    assert owner is not None
    assert owner.name == "c"


def test_the_first_standby_in_order_that_is_caught_up_succeeds() -> None:
    heard = members()
    assert heard.successor(10.0) is None
    heard.hear(replace(WARM, name="a", instance="of a"), 10.0)  # itself
    heard.hear(replace(WARM, name="b", caught_up=False), 10.0)
    assert heard.successor(10.0) is None
    heard.hear(replace(WARM, name="c"), 10.0)
    assert heard.successor(10.0) == "c"


def test_a_second_process_of_the_own_name_is_noticed() -> None:
    heard = members()
    heard.hear(replace(WARM, name="a", instance="of a"), 10.0)
    assert not heard.is_double(10.0)
    heard.hear(replace(WARM, name="a", instance="another"), 10.0)
    assert heard.is_double(10.0)
    assert not heard.is_double(10.1 + GONE_S)
    assert heard.present(10.0)["a"].instance == "of a"


def test_the_first_standby_that_follows_makes_snapshots_and_the_owner_if_there_is_none() -> None:
    heard = members()
    assert heard.snapshot_maker(10.0) is None
    heard.hear(replace(WARM, name="a", instance="of a", role=OWNER), 10.0)
    heard.hear(replace(WARM, name="b", caught_up=False), 10.0)
    assert heard.snapshot_maker(10.0) == "a"
    heard.hear(replace(WARM, name="c"), 10.0)
    assert heard.snapshot_maker(10.0) == "c"
    heard.hear(WARM, 10.1)
    assert heard.snapshot_maker(10.1) == "b"
