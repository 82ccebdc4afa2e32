"""Profiles and the roster: what a client is denied, that it is counted and told, and how many may be connected."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.messaging.clients.acl_profile import AddressRules, permissive
from sluicegate.messaging.clients.limits import ClientProfile
from sluicegate.messaging.clients.rights import VERDICTS_CACHED_MAX, ClientDenied, ClientRights
from sluicegate.messaging.clients.roster import ClientRoster, ClientUsername
from sluicegate.messaging.message.batch import AT_LEAST_ONCE, AT_MOST_ONCE, MessageBatch
from sluicegate.messaging.message.refusals import ADMITTED, REFUSED_GUARANTEED_SEND, REFUSED_PUBLISH_ACL
from sluicegate.messaging.topics.syntax import Syntax, parse_filter
from support.cores.client_rights import Told, acl, rules


def batch(*topics: str, qos: int = AT_MOST_ONCE) -> MessageBatch:
    return MessageBatch(
        topic=topics[0],
        topics=list(topics) if len(topics) > 1 else None,
        payloads=[b""] * len(topics),
        headers=None,
        qos=qos,
        retain=False,
        publisher="c",
        received_ms=0,
        payload_bytes=0,
    )


def test_a_topic_is_permitted_by_an_exception_to_the_default() -> None:
    """Solace 7.3: exceptions flip the default."""
    told = Told(its_acl=acl(publish=rules("orders/>")))
    rights = told.admit()
    assert rights.publish_verdict(batch("orders/eu")) == ADMITTED
    assert rights.publish_verdict(batch("secret")) == REFUSED_PUBLISH_ACL
    assert told.told == [("publish_acl", "c", "publish to 'secret'")]
    assert told.roster.denials.counts == {"publish_acl": 1}


def test_a_batch_of_several_is_refused_whole_and_counted_by_single_ones() -> None:
    told = Told(its_acl=acl(publish=rules("a", "b")))
    rights = told.admit()
    assert rights.publish_verdict(batch("a", "b", "c")) == REFUSED_PUBLISH_ACL
    assert told.told == []
    assert [rights.publish_verdict(batch(each)) for each in "abc"] == [ADMITTED, ADMITTED, REFUSED_PUBLISH_ACL]
    assert told.roster.denials.counts == {"publish_acl": 1}


def test_guaranteed_messages_can_be_forbidden_alone() -> None:
    """Solace 7.2: allowGuaranteedMsgSendEnabled."""
    rights = Told(ClientProfile(name="p", allow_guaranteed_msg_send_enabled=False)).admit()
    assert rights.publish_verdict(batch("a")) == ADMITTED
    assert rights.publish_verdict(batch("a", qos=AT_LEAST_ONCE)) == REFUSED_GUARANTEED_SEND


def test_nothing_is_asked_where_nothing_is_restricted() -> None:
    rights = ClientRoster().admit("", "c", "10.0.0.1", 0)
    assert not rights.limits_publishing


@pytest.mark.parametrize(
    ("exception", "topic", "expected"),
    [
        ("telemetry/$client-username/>", "telemetry/ada/t", True),
        ("telemetry/$client-username/>", "telemetry/bob/t", False),
        ("telemetry/$client-id", "telemetry/c", True),
        ("telemetry/$client-id", "telemetry/d", False),
    ],
)
def test_a_level_may_stand_for_the_client(exception: str, topic: str, expected: bool) -> None:
    """Solace 7.3: substitution variables."""
    assert Told(its_acl=acl(publish=rules(exception))).admit().may_publish(topic) is expected


@pytest.mark.parametrize("name", [">", "*", "+", "#", "a/b", ""])
def test_a_name_brings_no_wildcard_and_no_level(name: str) -> None:
    """A client that may choose its name gains nothing by it."""
    rights = Told(its_acl=acl(publish=rules("t/$client-id"))).admit(name)
    assert not any(rights.may_publish(topic) for topic in ("t/x", "t/", "t/a/b", "t/a", "t"))


@pytest.mark.parametrize("name", ["$queue", "$SYS", "$temporary", "#P2P"])
def test_a_name_leads_nowhere_that_wildcards_do_not_lead(name: str) -> None:
    """Else a client that chooses its name publishes to all queues, or hears of all clients."""
    its = rules("$client-id/>")
    rights = Told(its_acl=acl(publish=its, subscribe=its)).admit(name)
    assert not rights.may_publish(f"{name}/x")
    assert not rights.may_subscribe(parse_filter(f"{name}/>", Syntax.SMF))
    assert not Told(its_acl=acl(publish=rules("$client-id/>", allows=True))).admit(name).may_publish(f"{name}/x")


def test_a_subscription_needs_every_topic_it_matches() -> None:
    """Decision 0036: covered where the default is to disallow, without overlap where it is to allow."""
    strict = Told(its_acl=acl(subscribe=rules("orders/>"))).admit()
    loose = Told(its_acl=acl(subscribe=rules("secret/>", allows=True))).admit()
    assert strict.may_subscribe(parse_filter("orders/+/x", Syntax.MQTT))
    assert not strict.may_subscribe(parse_filter("#", Syntax.MQTT))
    assert loose.may_subscribe(parse_filter("orders/#", Syntax.MQTT))
    assert not loose.may_subscribe(parse_filter("#", Syntax.MQTT))


@pytest.mark.parametrize("text", ["$queue/orders", "$queue/#", "$queue/+", "$queue", "$reply/#", "$temporary/4f"])
def test_a_subscription_to_the_topic_of_one_receiver_is_refused(text: str) -> None:
    """Consuming a queue asks the queue. Without a rule against it a wildcard does not reach these topics either."""
    rights = Told().admit()
    assert not rights.may_subscribe(parse_filter(text, Syntax.MQTT))
    assert rights.may_subscribe(parse_filter("#", Syntax.MQTT))
    assert rights.may_subscribe(parse_filter("queue/#", Syntax.MQTT))


def test_share_names_have_rules_of_their_own() -> None:
    """Solace 2.5: wildcards allowed."""
    rights = Told(its_acl=acl(share_names=rules("team*"))).admit()
    rights.check_share("team1")
    with pytest.raises(ClientDenied, match="403 Subscription ACL Denied: share name 'other'"):
        rights.check_share("other")


def test_a_share_name_may_be_the_clients_own_name() -> None:
    """The variables of Solace 7.3, where an exception is a filter of one level."""
    told = Told(its_acl=acl(share_names=rules("$client-username")))
    rights = told.admit()
    rights.check_share("ada")
    assert not rights.may_share("bob")
    assert not rights.may_share("$client-username")
    told.roster.set_acl_profile("tight", acl(share_names=rules("$client-id")))
    assert rights.may_share("c")


@pytest.mark.parametrize(
    ("host", "expected"),
    [("10.1.2.3", True), ("::ffff:10.1.2.3", True), ("192.0.2.1", False), ("fd00::1%eth0", True), ("a path", False)],
)
def test_addresses_are_permitted_by_network(host: str, expected: bool) -> None:
    """Solace 7.3: clientConnectExceptions; an IPv4 client on a socket for both is one of IPv4."""
    networks = [ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("fd00::/8")]
    assert AddressRules(networks, allows_by_default=False).allows(host) is expected


def test_a_username_that_is_shut_down_is_refused() -> None:
    """Solace 7.4."""
    roster = ClientRoster()
    roster.configure([ClientUsername("ada", enabled=False)], [], [])
    with pytest.raises(ClientDenied, match="403 Client Username Is Shutdown"):
        roster.admit("ada", "c", "10.0.0.1", 0)


def test_connections_of_a_name_are_counted_and_given_back() -> None:
    """Solace 7.2: maxConnectionCountPerClientUsername; a takeover ends one."""
    told = Told(ClientProfile(name="p", max_connection_count_per_client_username=1))
    first = told.admit("one", takes_over=True)
    with pytest.raises(ClientDenied, match="503 Too Many Clients"):
        told.admit("two", takes_over=True)
    told.roster.leave(told.admit("one", takes_over=True))
    told.roster.leave(first)
    told.admit("two")
    assert told.roster.denials.counts == {"too_many_connections": 1}


def test_a_connection_that_is_not_taken_over_counts_whatever_its_name() -> None:
    """A session is taken over, but no AMQP connection whose container is called like it."""
    told = Told(ClientProfile(name="p", max_connection_count_per_client_username=1))
    in_amqp = told.admit("one")
    with pytest.raises(ClientDenied, match="503 Too Many Clients"):
        told.admit("one", takes_over=True)
    told.roster.leave(in_amqp)
    told.roster.leave(told.admit("one", takes_over=True))
    told.roster.leave(told.admit("one"))
    assert told.roster.count == 0


def test_connections_of_a_profile_are_counted_over_its_names() -> None:
    roster = ClientRoster()
    profile = ClientProfile(name="default", max_connection_count=2)
    roster.configure([], [profile], [])
    roster.admit("ada", "1", "10.0.0.1", 0)
    roster.admit("", "2", "10.0.0.1", 0)
    with pytest.raises(ClientDenied, match="profile 'default' allows 2 connections"):
        roster.admit("bob", "3", "10.0.0.1", 0)


def test_a_changed_profile_is_in_force_for_connected_clients() -> None:
    told = Told()
    rights = told.admit()
    assert rights.may_publish("a")
    told.roster.configure(
        [ClientUsername("ada", acl_profile="tight")], [ClientProfile(name="default")], [acl(publish=rules("b"))]
    )
    assert rights.publish_verdict(batch("a")) == REFUSED_PUBLISH_ACL
    told.roster.leave(rights)


def test_a_change_of_one_account_or_profile_leaves_what_is_known_of_others() -> None:
    """Thousands may be connected: who is not concerned remembers its verdicts, and is counted as before."""
    told = Told()
    told.roster.set_client_profile("q", ClientProfile(name="q", max_connection_count=1))
    told.roster.set_acl_profile("wide", permissive("wide"))
    assert not told.roster.set_username("bob", ClientUsername("bob", client_profile="q", acl_profile="wide"))
    ada, bob = told.admit(), told.admit(user="bob")
    assert ada.may_publish("a")
    assert bob.may_publish("a")
    told.roster.set_acl_profile("wide", acl(publish=rules()))
    assert (ada.verdicts_count, bob.verdicts_count) == (1, 0)
    assert not bob.may_publish("a")
    told.roster.set_client_profile("q", ClientProfile(name="q", max_connection_count=2))
    assert (ada.verdicts_count, bob.verdicts_count) == (1, 0)
    assert told.roster.set_username("bob", ClientUsername("bob", enabled=False))
    assert bob.may_publish("a"), "it is its protocol that sends it away; until then it has the profile `default`"
    assert told.roster.set_username("ada", None)
    assert ada.acl.name == "tight"
    assert told.roster.let_in() == frozenset()
    for rights in (ada, bob):
        told.roster.leave(rights)
    assert told.roster.count == 0


def test_who_is_no_user_any_more_may_not_do_more_while_it_is_sent_away() -> None:
    """Flow clients have two seconds to finish what is in flight, and the profile `default` may forbid nothing."""
    for is_reload in (False, True):
        told = Told(its_acl=acl(publish=rules("own")))
        ada, stranger = told.admit(), told.admit(user="")
        if is_reload:
            told.roster.configure([], [], [])
        else:
            assert told.roster.set_username("ada", None)
        assert not ada.may_publish("a")
        assert stranger.may_publish("a")


def test_the_memory_of_verdicts_has_a_bound() -> None:
    rights = Told(its_acl=acl(publish=rules("t/>"))).admit()
    for number in range(2 * VERDICTS_CACHED_MAX):
        assert rights.may_publish(f"t/{number}")
    assert rights.verdicts_count <= VERDICTS_CACHED_MAX


def test_a_client_ahead_of_its_rate_waits_until_it_is_not() -> None:
    """What was not used is kept for one second."""
    rights = Told(ClientProfile(name="p", max_msg_rate=10)).admit()
    for _ in range(15):
        assert rights.publish_verdict(batch("a")) == ADMITTED
    assert rights.is_ahead()
    rights.refill(400)
    assert rights.is_ahead()
    rights.refill(600)
    assert not rights.is_ahead()
    rights.refill(3_600_000)
    for _ in range(10):
        rights.publish_verdict(batch("a"))
    assert not rights.is_ahead()
    rights.publish_verdict(batch("a"))
    assert rights.is_ahead()


@pytest.mark.parametrize("rate", [1, 3, 7, 999])
def test_a_rate_is_met_however_often_the_clock_is_looked_at(rate: int) -> None:
    """Twice a second, as gateways do: a rate of three would be one of two without its fractions."""
    rights = Told(ClientProfile(name="p", max_msg_rate=rate)).admit()
    taken = 0
    for half_seconds in range(1, 201):
        while not rights.is_ahead():
            rights.publish_verdict(batch("a"))
            taken += 1
        rights.refill(500 * half_seconds)
    assert taken == pytest.approx(101 * rate, abs=rate + 1)


def test_a_rate_that_is_new_begins_with_nothing_owed() -> None:
    """What was published while there was none does not count against it."""
    told = Told(its_acl=acl(publish=rules("a")))
    rights = told.admit()
    for _ in range(1000):
        rights.publish_verdict(batch("a"))
    username = ClientUsername("ada", client_profile="p", acl_profile="tight")
    told.roster.configure([username], [ClientProfile(name="p", max_msg_rate=5)], [acl(publish=rules("a"))])
    assert rights.publish_verdict(batch("a")) == ADMITTED
    assert not rights.is_ahead()


@given(steps=st.lists(st.tuples(st.sampled_from(["ada", "bob", ""]), st.integers(0, 5)), max_size=60))
def test_the_roster_agrees_with_a_plain_list(steps: list[tuple[str, int]]) -> None:
    """Goal: nobody is counted twice or forgotten. Method: admit and leave at random, and count by hand."""
    roster = ClientRoster()
    roster.configure([], [ClientProfile(name="default", max_connection_count_per_client_username=3)], [permissive("x")])
    inside: list[ClientRights] = []
    for user, choice in steps:
        if choice == 0 and inside:
            roster.leave(inside.pop(0))
            continue
        may = sum(each.username == user for each in inside) < 3
        try:
            inside.append(roster.admit(user, str(choice), "10.0.0.1", 0))
            assert may
        except ClientDenied:
            assert not may
        for name in ("ada", "bob", ""):
            assert roster.connected_count(name) == sum(each.username == name for each in inside)
