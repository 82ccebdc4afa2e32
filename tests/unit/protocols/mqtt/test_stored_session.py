"""What of a session's subscriptions lies in the store, and what is read back."""

import orjson

from sluicegate.messaging.message.batch import AT_LEAST_ONCE, EXACTLY_ONCE
from sluicegate.messaging.selectors.selector import Selector, Selectors
from sluicegate.messaging.topics.syntax import Syntax, parse_filter
from sluicegate.protocols.mqtt.session.session import ExtraSubscription, Session
from sluicegate.protocols.mqtt.session.stored import StoredSession, subscriptions_by_client
from sluicegate.protocols.mqtt.session.subscriptions import GrantedSubscription

SELECTORS = Selectors({})
BIG = "price > 5"


def granted(text: str, *, qos: int = 1, selector: Selector | None = None) -> GrantedSubscription:
    return GrantedSubscription(parse_filter(text, Syntax.MQTT), qos, True, True, 2, 7, selector, (1, 0))


def read_back(state: bytes, subscriptions: list[bytes]) -> StoredSession:
    return StoredSession("device", state, None, [], subscriptions, SELECTORS, row_prefix=b"")


def session_with(*texts: str) -> Session:
    session = Session("device", expiry_s=60)
    for text in texts:
        session.grant(text, granted(text))
        session.changed(text)
    return session


def test_subscriptions_are_read_back_as_they_were() -> None:
    session = session_with("a/+")
    session.grant("b", granted("b", selector=SELECTORS.compile(BIG)))
    session.add_share(ExtraSubscription("$share/g/c", 1, 3, True, "#share/g/c"))
    session.add_queue(ExtraSubscription("$queue/q", 2, 0, False, "q", SELECTORS.compile(BIG)))
    for text in ("b", "$share/g/c", "$queue/q"):
        session.changed(text)
    rows = [row for _, row in session.unstored_rows() if row is not None]
    stored = read_back(session.state_row(will=None, closed_wall_ms=0), rows)
    found = stored.session.table.by_filter
    assert sorted(found) == ["a/+", "b"]
    assert all(found[text].is_as(session.table.by_filter[text]) for text in found)
    share, queue = stored.extras
    assert share.is_as(session.shares[share.filter_text])
    assert queue.is_as(session.queues[queue.filter_text])
    assert not stored.session.unstored


def test_a_subscription_that_has_ended_has_no_row() -> None:
    session = session_with("a", "b")
    session.table.revoke("a")
    session.changed("a")
    ended, kept = session.unstored_rows()
    assert ended == (session.subscription_key("a"), None)
    assert kept[1] is not None
    assert sorted(session.subscription_keys()) == [session.subscription_key("a"), session.subscription_key("b")]


def test_a_session_that_is_not_kept_has_nothing_to_store() -> None:
    session = Session("device", expiry_s=0)
    session.grant("a", granted("a"))
    session.changed("a")
    assert session.unstored_rows() == []


def test_rows_are_distinguished_by_their_clients() -> None:
    """No client id has a zero byte; a filter may look like the key of another client's."""
    long = Session("device2", expiry_s=60)
    short = Session("device", expiry_s=60)
    rows = {long.subscription_key("a"): b"1", short.subscription_key("a"): b"2", short.subscription_key("2/b"): b"3"}
    assert subscriptions_by_client(rows) == {"device2": [b"1"], "device": [b"2", b"3"]}


def test_subscriptions_that_an_earlier_release_wrote_into_one_row_are_stored_anew() -> None:
    old = {
        "expiry_s": 60,
        "closed_wall_ms": 0,
        "subscriptions": [["a", 1, False, False, 0, 0], ["b", 0, False, False, 0, 0, BIG, [2]]],
        "extras": [["$share/g/c", 1, 0, False, "#share/g/c"], ["$queue/q", 1, 0, False, "q", BIG]],
        "will": None,
    }
    stored = read_back(orjson.dumps(old), [])
    assert sorted(stored.session.table.by_filter) == ["a", "b"]
    assert stored.session.table.by_filter["b"].priorities == (2,)
    assert [extra.filter_text for extra in stored.extras] == ["$share/g/c", "$queue/q"]
    assert sorted(stored.session.unstored) == ["$queue/q", "$share/g/c", "a", "b"]


STATE = Session("device", expiry_s=60).state_row(will=None, closed_wall_ms=0)
SHARE = "$share/g/c"
SHARED = [ExtraSubscription(SHARE, 2, 0, False, "#share/g/c").row()]


def test_packet_ids_are_read_back_as_they_were_sent() -> None:
    """[4.4.0-1]: each message comes again under its id, and at its QoS."""
    session = session_with("a")
    share = ExtraSubscription(SHARE, 2, 0, False)
    session.add_share(share)
    session.ids.remember(10, 1, 3, AT_LEAST_ONCE)
    session.ids.remember(13, 4, 1, EXACTLY_ONCE)
    session.ids.exactly_once.add(20, 100, 1000)
    share.ids.exactly_once.add(5, 2000, 2)
    row = session.ids_row()
    stored = StoredSession("device", STATE, row, [], SHARED, SELECTORS, row_prefix=b"")
    once = [(13, 4, 1, EXACTLY_ONCE), (20, 100, 1000, EXACTLY_ONCE)]
    assert stored.session.ids.remembered_runs() == [(10, 1, 3, AT_LEAST_ONCE), *once]
    assert stored.extras[0].ids.remembered_runs() == [(5, 2000, 2, EXACTLY_ONCE)]


def test_a_thousand_messages_in_flight_make_the_row_of_packet_ids_no_larger() -> None:
    """It is written again in each turn in which something is sent or answered."""
    session = session_with("a")
    session.ids.exactly_once.add(1000, 1000, 1)
    alone = session.ids_row()
    session.ids.exactly_once.add(1001, 1001, 1000)
    together = session.ids_row()
    assert alone is not None
    assert together is not None
    assert len(together) <= len(alone) + len("000")


def test_packet_ids_that_an_earlier_release_wrote_one_by_one_are_read() -> None:
    old = {"released": [[7, 9]], "sent": [[10, 1], [11, 2], [12, 3]], "once": [2, 3], "taken": [5, [[4, 10]]]}
    row = orjson.dumps({**old, "shared": [[SHARE, 6, [[5, 20], [6, 21]], [[1, 3]]], ["$share/gone/c", 8, [[1, 30]]]]})
    stored = StoredSession("device", STATE, row, [], SHARED, SELECTORS, row_prefix=b"")
    ids, shared = stored.session.ids, stored.extras[0].ids
    assert ids.remembered_runs() == [(10, 1, 1, AT_LEAST_ONCE), (11, 2, 2, EXACTLY_ONCE)]
    assert (ids.partition_id, ids.received.ranges()) == (5, [(4, 10)])
    assert shared.remembered_runs() == [(5, 20, 2, EXACTLY_ONCE)]
    assert (shared.partition_id, shared.received.ranges()) == (6, [(1, 3)])
    assert stored.session.released.ranges() == [(7, 9), (30, 31)]


def test_packet_ids_of_a_shared_subscription_that_had_ended_wait_for_pubcomp() -> None:
    """[4.4.0-1]: the client may have what came under them."""
    row = orjson.dumps({"released": [], "sent": [], "shared": [["$share/gone/c", 8, [[1, 30, 5, 2]], []]]})
    stored = StoredSession("device", STATE, row, [], SHARED, SELECTORS, row_prefix=b"")
    assert stored.session.released.ranges() == [(30, 35)]
