"""Requests under way at the admin port: nobody takes all places, and probes of health take none."""

import socket
from collections import Counter
from contextlib import ExitStack
from typing import Final

import pytest
from hypothesis import given
from hypothesis.strategies import lists, sampled_from, tuples

from sluicegate.gateway.admin.access.places import (
    ACCOUNT,
    ALL,
    ANONYMOUS,
    ANONYMOUS_OF_NETWORK_MAX,
    NETWORK,
    OF_ACCOUNT_MAX,
    OF_NETWORK_MAX,
    REQUESTS_MAX,
    Places,
)
from support.operations.admin_accounts import ask, basic, configured
from support.operations.memory_node import MemoryNode
from support.operations.running_admin import running_admin

TRICKLE: Final = (
    "POST {path} HTTP/1.1\r\nHost: localhost\r\n{login}Content-Type: application/json\r\nContent-Length: 99\r\n\r\n{{"
)


def test_an_account_has_a_part_of_the_places_and_another_one_the_others() -> None:
    places = Places()
    taken = [places.admit_account(f"192.0.2.{number}", "ada") for number in range(OF_ACCOUNT_MAX + 1)]
    assert taken == [""] * OF_ACCOUNT_MAX + [ACCOUNT]
    assert places.admit_account("192.0.2.1", "bob") == ""
    places.release_account("192.0.2.1", "ada")
    assert places.admit_account("192.0.2.200", "ada") == ""
    assert places.refused_counts[ACCOUNT] == 1


def test_an_address_has_a_share_of_the_places_whichever_users_come_from_it() -> None:
    """Without accounts, everybody on this machine is nobody."""
    places = Places()
    assert [places.admit_account("::1", "") for _ in range(OF_NETWORK_MAX + 1)] == [""] * OF_NETWORK_MAX + [NETWORK]
    assert places.admit_account("192.0.2.1", "") == ""


def test_an_account_without_a_request_under_way_always_has_a_place() -> None:
    places = Places()
    for number in range(REQUESTS_MAX):
        assert places.admit_account(f"192.0.2.{number}", f"crowd {number % 3}") == ""
    assert places.admit_account("192.0.2.1", "crowd 0") == ALL
    assert places.admit_account("192.0.2.200", "") == ALL
    assert places.admit_account("192.0.2.1", "ada") == ""
    assert places.admit_account("192.0.2.1", "ada") == ALL


def test_unauthenticated_clients_of_an_address_take_no_places_of_others() -> None:
    places = Places()
    joined = [places.admit_anonymous("192.0.2.1") for _ in range(ANONYMOUS_OF_NETWORK_MAX + 1)]
    assert joined == [""] * ANONYMOUS_OF_NETWORK_MAX + [ANONYMOUS]
    assert places.admit_anonymous("192.0.2.2") == ""
    places.release_anonymous("192.0.2.1")
    assert places.admit_anonymous("192.0.2.1") == ""


@given(lists(tuples(sampled_from("ab"), sampled_from(["", "x", "y", "z"]), sampled_from([True, True, False]))))
def test_a_client_that_disconnects_leaves_its_place_to_another(steps: list[tuple[str, str, bool]]) -> None:
    """Against a plain model: those who are there."""
    places, there = Places(), Counter[tuple[str, str]]()
    for network, account, comes in steps:
        if not comes and there[network, account]:
            places.release_account(network, account)
            there[network, account] -= 1
        elif comes and not places.admit_account(network, account):
            there[network, account] += 1
        for each in "xyz":
            assert sum(there[one, each] for one in "ab") <= OF_ACCOUNT_MAX
        assert there.total() <= REQUESTS_MAX + 3
    for network, account in list(there.elements()):
        places.release_account(network, account)
    fresh = Places()
    for _ in range(REQUESTS_MAX):
        assert places.admit_account("a", "x") == fresh.admit_account("a", "x")


@pytest.mark.parametrize("path", ["/health/live", "/health/ready", "/health/live?verbose=1"])
def test_a_probe_is_answered_while_all_places_are_taken(path: str, node: MemoryNode) -> None:
    """A liveness probe that is refused has a healthy node restarted."""
    places = Places()
    for number in range(REQUESTS_MAX):
        places.admit_account(f"192.0.2.{number}", f"crowd {number % 3}")
    for _ in range(ANONYMOUS_OF_NETWORK_MAX):
        places.admit_anonymous("127.0.0.1")
    with running_admin(node, admin=configured(), places=places) as admin:
        assert admin.ask("GET", path).status == 200
        refused = admin.ask("GET", "/queues", None, basic("reader", "reader-word"))
        assert (refused.status, refused.headers["retry-after"]) == (503, "5")
        assert b"too many logins from this address" in refused.body
        places.release_anonymous("127.0.0.1")
        assert ask(admin, "reader", "GET", "/queues").status == 200


@pytest.mark.parametrize("path", ["/queues", "/SEMP/v2/config/msgVpns/default/queues"])
def test_slow_bodies_of_one_account_leave_room_for_others(path: str, node: MemoryNode) -> None:
    places = Places()
    with running_admin(node, admin=configured(), places=places) as admin, ExitStack() as connections:
        port = int(admin.url.rpartition(":")[2])
        login = "".join(f"{name}: {value}\r\n" for name, value in basic("writer", "writer-word").items())
        for _ in range(OF_ACCOUNT_MAX):
            client = connections.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
            client.sendall(TRICKLE.format(path=path, login=login).encode())
        while admin.ask("POST", path, {"name": "q"}, basic("writer", "writer-word")).status != 503:
            pass  # until the last of them has begun
        assert ask(admin, "root", "GET", "/queues").status == 200
        assert admin.ask("GET", "/health/live").status == 200
        assert places.refused_counts[ACCOUNT] > 0


@pytest.mark.parametrize("path", ["/health%2Flive", "/health/live/..", "//health/live", "/HEALTH/live"])
def test_only_the_probes_themselves_take_no_place(path: str, node: MemoryNode) -> None:
    """What is spelt otherwise is another path to the guard, and asks for a login."""
    places = Places()
    for _ in range(ANONYMOUS_OF_NETWORK_MAX):
        places.admit_anonymous("127.0.0.1")
    with running_admin(node, admin=configured(), places=places) as admin:
        assert admin.ask("GET", path).status == 503
