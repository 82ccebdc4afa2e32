"""What of a session's subscriptions lies in the store, and what is read back."""

import orjson

from messaging.selectors import Selector, Selectors
from messaging.topics import Syntax, parse_filter
from protocols.mqtt.granted import GrantedSubscription
from protocols.mqtt.session import ExtraSubscription, Session
from protocols.mqtt.stored_session import StoredSession, subscriptions_by_client

SELECTORS = Selectors({})
BIG = "price > 5"


def granted(text: str, *, qos: int = 1, selector: Selector | None = None) -> GrantedSubscription:
    return GrantedSubscription(parse_filter(text, Syntax.MQTT), qos, True, True, 2, 7, selector, (1, 0))


def read_back(state: bytes, subscriptions: list[bytes]) -> StoredSession:
    return StoredSession("device", state, None, [], subscriptions, SELECTORS, row_prefix=b"")


def session_with(*texts: str) -> Session:
    session = Session("device", expiry_s=60)
    for text in texts:
        session.table.grant(text, granted(text))
        session.changed(text)
    return session


def test_subscriptions_are_read_back_as_they_were() -> None:
    session = session_with("a/+")
    session.table.grant("b", granted("b", selector=SELECTORS.compile(BIG)))
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
    session.table.grant("a", granted("a"))
    session.changed("a")
    assert session.unstored_rows() == []


def test_rows_are_told_apart_by_their_clients() -> None:
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
