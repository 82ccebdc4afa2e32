"""The identity of a connection: its own rights, and those of a client that is admitted again."""

import pytest

from sluicegate.messaging.clients.rights import ClientDenied
from sluicegate.messaging.clients.roster import ClientRoster, ClientUsername
from sluicegate.protocols.connection.identity import Identity
from sluicegate.protocols.security.authentication import Principal

HOST = "10.0.0.1"


def roster_of(*names: str) -> ClientRoster:
    roster = ClientRoster()
    roster.configure([ClientUsername(name) for name in names], [], [])
    return roster


def test_the_rights_of_a_client_are_its_identity_and_end_with_it() -> None:
    roster = roster_of("ada")
    identity = Identity(roster)
    assert identity.admitted() is None
    identity.authenticated(Principal("ada"))
    assert identity.admit("c", HOST, 0) is identity.rights is identity
    assert (identity.rights.username, roster.connected_count("ada"), roster.count) == ("ada", 1, 1)
    identity.close()
    identity.close()
    assert (roster.connected_count("ada"), roster.count) == (0, 0)
    assert identity.rights.may_publish("t"), "requests that were under way may still ask"


def test_who_is_admitted_again_as_another_user_leaves_the_first_rights_to_earlier_requests() -> None:
    """Over HTTP each request may name another user."""
    roster = roster_of("ada", "bob")
    identity = Identity(roster)
    identity.authenticated(Principal("ada"))
    first = identity.admit("c", HOST, 0)
    identity.authenticated(Principal("bob"))
    second = identity.admit("c", HOST, 0)
    assert (first.username, second.username, identity.rights) == ("ada", "bob", second)
    assert (roster.connected_count("ada"), roster.connected_count("bob")) == (0, 1)
    identity.close()
    assert roster.count == 0


def test_who_is_refused_has_no_rights_any_more() -> None:
    roster = roster_of("ada")
    identity = Identity(roster)
    identity.authenticated(Principal("ada"))
    identity.admit("c", HOST, 0)
    roster.is_up = False
    with pytest.raises(ClientDenied):
        identity.admit("c", HOST, 0)
    assert identity.admitted() is None
    identity.close()
    assert roster.count == 0


def test_who_has_left_before_it_is_admitted_takes_no_place() -> None:
    roster = roster_of("ada")
    identity = Identity(roster)
    identity.close()
    identity.authenticated(Principal("ada"))
    identity.admit("c", HOST, 0)
    assert roster.count == 0


def test_clients_of_one_username_and_client_name_leave_one_by_one_in_any_order() -> None:
    roster = roster_of("ada")
    inside = [roster.admit("ada", "c", HOST, 0) for _ in range(3)]
    for left, index in ((2, 1), (1, 0), (0, 2)):
        roster.leave(inside[index])
        assert (roster.connected_count("ada"), roster.count) == (left, left)
        assert (roster.rights_of(None, "c") is not None) == (left > 0)
