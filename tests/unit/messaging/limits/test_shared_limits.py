"""Gates and rosters of brokers of one machine: together they admit what one broker would."""

import pytest

from sluicegate.messaging.bulk.staging import StagingArea, StagingRefused
from sluicegate.messaging.clients.limits import COUNT_MAX, ClientProfile
from sluicegate.messaging.clients.rights import ClientDenied, ClientRights
from sluicegate.messaging.clients.roster import ClientRoster, ClientUsername
from sluicegate.messaging.limits.counts import key_of
from sluicegate.messaging.limits.places import SharedPlaces
from sluicegate.messaging.limits.quota import SharedQuota
from sluicegate.messaging.limits.slices import Slice
from sluicegate.messaging.limits.totals import SharedTotal
from sluicegate.messaging.message.refusals import ADMITTED, REFUSED_SPOOL_COUNT, REFUSED_SPOOL_FULL, REFUSED_VPN_FULL
from sluicegate.messaging.queues.admission import SpoolGate
from support.cores.shared_counts import running_brokers, shared_words

BROKERS = 2


def rosters() -> list[ClientRoster]:
    found = [ClientRoster() for _ in range(BROKERS)]
    for roster, counts in zip(found, running_brokers(shared_words(BROKERS), BROKERS), strict=True):
        roster.share(SharedPlaces(counts, roster.vpn))
    return found


def allow(roster: ClientRoster, *, of_username: int, of_profile: int = 100) -> None:
    profile = ClientProfile(
        name="few", max_connection_count_per_client_username=of_username, max_connection_count=of_profile
    )
    roster.configure([ClientUsername("ann", client_profile="few"), ClientUsername("bob")], [profile], [])


def admit(roster: ClientRoster, name: str, user: str = "ann", *, takes_over: bool = False) -> ClientRights:
    return roster.admit(user, name, "10.0.0.1", 0, takes_over=takes_over)


def test_a_username_has_its_connections_over_all_brokers() -> None:
    one, other = rosters()
    for each in (one, other):
        allow(each, of_username=3)
    before = admit(one, "a", takes_over=True)
    first = admit(other, "b")
    admit(one, "c")
    for each in (one, other):
        with pytest.raises(ClientDenied, match="user 'ann' has the 3 connections"):
            admit(each, "d")
    admit(one, "a", takes_over=True)
    one.leave(before)
    admit(other, "e", "bob")
    other.leave(first)
    one.leave(admit(one, "f"))
    admit(other, "g")


def test_a_profile_and_a_message_vpn_have_their_connections_over_all_brokers() -> None:
    one, other = rosters()
    for each in (one, other):
        allow(each, of_username=100, of_profile=2)
        each.quota.connection_count_max = 4
    admit(one, "a")
    admit(other, "b")
    with pytest.raises(ClientDenied, match="profile 'few' allows 2"):
        admit(one, "c")
    admit(other, "d", "bob")
    admit(other, "e", "bob")
    with pytest.raises(ClientDenied, match="message VPN 'default' has the 4 connections"):
        admit(one, "f", "bob")


def test_a_limit_that_a_username_gets_counts_the_connections_there_are() -> None:
    one, other = rosters()
    for each in (one, other):
        allow(each, of_username=1_000_000)
    kept = admit(one, "a")
    for each in (one, other):
        allow(each, of_username=1)
    with pytest.raises(ClientDenied):
        admit(other, "b")
    for each in (one, other):
        allow(each, of_username=1_000_000)
    one.leave(kept)
    for each in (one, other):
        allow(each, of_username=1)
    admit(other, "b")


def gates(*, bytes_max: int, count_max: int) -> list[tuple[SpoolGate, SpoolGate]]:
    """Return the gates of the node and of a message VPN, which may have half of it, of each broker."""
    found: list[tuple[SpoolGate, SpoolGate]] = []
    for counts in running_brokers(shared_words(BROKERS), BROKERS):
        node = SpoolGate(usage_bytes_max=bytes_max, usage_count_max=count_max)
        vpn = SpoolGate(usage_bytes_max=bytes_max // 2, refusal=REFUSED_VPN_FULL, parent=node)
        node.share(*[Slice(counts, key_of(what)) for what in ("bytes", "messages")])
        vpn.share(Slice(counts, key_of("vpn")))
        found.append((node, vpn))
    return found


def fill(gate: SpoolGate, size: int) -> int:
    """Publish messages of one size until there is a refusal; return that."""
    while True:
        verdict = gate.verdict_on_bytes(size)
        if verdict == ADMITTED:
            verdict = gate.verdict_on_count(1)
        if verdict != ADMITTED:
            return int(verdict)
        gate.count_in(1, size)


def test_the_quota_of_a_message_vpn_is_that_of_all_brokers() -> None:
    (_, one), (_, other) = gates(bytes_max=200_000, count_max=1_000_000)
    one.count_in(30, 30_000)
    one.settle()
    assert fill(other, 100) == REFUSED_VPN_FULL
    assert 95_000 <= one.usage_bytes + other.usage_bytes <= 100_000
    assert fill(one, 100) == REFUSED_VPN_FULL
    assert one.usage_bytes + other.usage_bytes == 100_000

    other.count_out(500, 50_000)
    other.settle()
    assert fill(one, 100) == REFUSED_VPN_FULL
    assert 95_000 <= one.usage_bytes + other.usage_bytes <= 100_000
    assert (one.usage_bytes_max, other.usage_bytes_max) == (100_000, 100_000), "what operators see"


def test_a_quota_that_is_lowered_or_raised_counts_from_then_on() -> None:
    (node, one), (_, other) = gates(bytes_max=200_000, count_max=1_000_000)
    fill(one, 100)
    for each in (one, other):
        each.bound(50_000)
    one.count_out(520, 52_000)
    for each in (node, one):
        each.settle()
    assert fill(other, 100) == REFUSED_VPN_FULL
    assert one.usage_bytes + other.usage_bytes <= 50_000
    for each in (one, other):
        each.bound(150_000)
    assert fill(other, 100) == REFUSED_VPN_FULL
    assert one.usage_bytes + other.usage_bytes > 140_000


def test_the_limits_of_the_node_hold_for_all_its_message_vpns_at_all_brokers() -> None:
    (node, one), (_, other) = gates(bytes_max=20_000, count_max=50)
    node.count_in(10, 15_000)
    node.settle()
    assert fill(other, 1_000) == REFUSED_SPOOL_FULL
    other.count_out(4, 4_000)
    one.count_in(30, 10)
    node.settle()
    assert fill(other, 1) == REFUSED_SPOOL_COUNT
    assert node.usage_count + other.usage_count == 50


def test_messages_on_their_way_between_brokers_find_room_and_are_seen_by_all_at_once() -> None:
    """Else a message VPN that is full of messages for another broker would never get rid of them."""
    (_, one), (node, other) = gates(bytes_max=2_000, count_max=10)
    assert fill(one, 100) == REFUSED_VPN_FULL
    other.count_in(0, 10)
    assert other.verdict_on_bytes(100) == REFUSED_VPN_FULL
    assert other.admits_moved(100, 1, counted_size=100, counted_count=1)
    other.count_in(1, 100)
    one.count_out(1, 100)
    assert one.verdict_on_bytes(150) == REFUSED_VPN_FULL

    assert not other.admits_moved(300, 3, counted_size=100, counted_count=1), "three queues have a copy each"
    node.blocked = "the disk is full"
    assert not other.admits_moved(100, 1, counted_size=100, counted_count=1)


def test_what_leaves_for_another_broker_is_not_used_again_and_again() -> None:
    """Method: each message is published at one broker and goes to the other; both settle in between."""
    (_, one), (_, other) = gates(bytes_max=200_000, count_max=10_000)
    size = 1_000  # below what a broker holds without a use
    for _ in range(300):
        if one.verdict_on_bytes(size) == ADMITTED:
            one.count_in(1, size)
            assert other.admits_moved(size, 1, counted_size=size, counted_count=1)
            other.count_in(1, size)
            one.count_out(1, size)
        for each in (one, other):
            each.settle()
    assert 95_000 <= one.usage_bytes + other.usage_bytes <= 105_000


def owners(*, of_username: int) -> list[ClientRoster]:
    """Return rosters that also share quotas; the profile of Ann limits the queues that she owns."""
    found = rosters()
    for roster, counts in zip(found, running_brokers(shared_words(BROKERS), BROKERS), strict=True):
        roster.quota.shared = SharedQuota(counts, roster.vpn)
        allow_queues(roster, of_username)
    return found


def allow_queues(roster: ClientRoster, count_max: int) -> None:
    profile = ClientProfile(name="few", max_endpoint_count_per_client_username=count_max)
    roster.configure([ClientUsername("ann", client_profile="few"), ClientUsername("bob")], [profile], [])


def test_a_username_owns_so_many_queues_over_all_brokers() -> None:
    one, other = owners(of_username=2)
    ann, also_ann = admit(one, "a"), admit(other, "b")
    one.check_endpoint(ann, 0, 0)
    one.owns("ann", 1)
    other.check_endpoint(also_ann, 0, 0)
    other.owns("ann", 1)
    for roster, rights in ((one, ann), (other, also_ann)):
        with pytest.raises(ClientDenied, match="user 'ann' owns the 2 queues"):
            roster.check_endpoint(rights, 1, 1)
    other.check_endpoint(admit(other, "c", "bob"), 50, 51)  # without a limit nobody counts
    one.owns("ann", 0)
    other.check_endpoint(also_ann, 1, 1)


def test_a_limit_of_queues_that_a_username_gets_counts_those_there_are() -> None:
    one, other = owners(of_username=COUNT_MAX)
    one.owns("ann", 3)
    for each in (one, other):
        allow_queues(each, 3)
    with pytest.raises(ClientDenied, match="user 'ann' owns the 3 queues"):
        other.check_endpoint(admit(other, "a"), 0, 0)


def test_staged_bytes_are_those_of_all_brokers() -> None:
    areas = [StagingArea(next_sequence=1, bytes_max=10, ttl_ms=50, names_kept_ms=100) for _ in range(BROKERS)]
    for area, counts in zip(areas, running_brokers(shared_words(BROKERS), BROKERS), strict=True):
        area.shared = SharedTotal(counts, "staged bytes", "default", outlives=True)
    for number, area in enumerate(areas):
        area.stage("t", 0, 0, user="", count=1, usage_bytes=5, wall_ms=number)
    for area in areas:
        with pytest.raises(StagingRefused, match="as many bytes as they may together: 10"):
            area.stage("t", 1, 0, user="", count=1, usage_bytes=1, wall_ms=2)
