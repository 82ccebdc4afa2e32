"""The path of a message over bridges."""

from sluicegate.messaging.message.headers import Headers
from sluicegate.protocols.bridges.path import HOPS_MAX, PATH, extended, has_passed, is_too_long, path_of, place_of


def test_a_path_names_the_places_that_a_message_has_left() -> None:
    here, there = place_of("a", "default"), place_of("b", "default")
    path = extended(extended("", here, "to-b"), there, "to-c")
    assert path == "a/default/to-b, b/default/to-c"
    assert has_passed(path, here)
    assert has_passed(path, there)
    assert not has_passed(path, place_of("a", "other"))
    assert not has_passed(path, place_of("a", "def")), "a part of a name is another name"


def test_names_cannot_be_taken_for_others() -> None:
    """A message VPN may be called anything."""
    odd = place_of("a", "x/y, z")
    assert has_passed(extended("", odd, "b"), odd)
    assert not has_passed(extended("", odd, "b"), place_of("a", "x"))


def test_a_path_ends_after_eight_hops() -> None:
    """Solace 4.9: bridges have a hop limit of 8."""
    path = ""
    for number in range(HOPS_MAX):
        assert not is_too_long(path)
        path = extended(path, place_of(str(number), "default"), "b")
    assert is_too_long(path)


def test_the_path_is_a_user_property() -> None:
    assert path_of(None) is None
    assert path_of(Headers(user_properties=[("k", "v")])) is None
    assert path_of(Headers(user_properties=[("k", "v"), (PATH, "a/b/c")])) == "a/b/c"


def test_all_properties_of_that_name_are_the_path() -> None:
    """A client that publishes an empty one, or its own, does not hide the brokers that the message has passed."""
    empty = Headers(user_properties=[(PATH, "")])
    assert path_of(empty) == "", "it is there, and to be replaced"
    both = Headers(user_properties=[(PATH, ""), ("k", "v"), (PATH, "a/default/b"), (PATH, "b/default/c")])
    assert path_of(both) == "a/default/b, b/default/c"
    assert has_passed("a/default/b, b/default/c", place_of("b", "default"))
