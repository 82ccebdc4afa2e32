"""Events: their lines and topics, and that a flood of them has a bound."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.messaging.observability import events
from sluicegate.messaging.observability.events import (
    BURST,
    CLIENT_CONNECTED,
    MQTT_PREFIX,
    NOBODY,
    RATE_PER_S,
    SMF_PREFIX,
    SYSTEM_STARTUP_COMPLETE,
    VPN_QUEUE_CREATED,
    Event,
    EventAllowance,
    EventKind,
    as_word,
)


def event(kind: EventKind, *, vpn: str = "default", client: str = NOBODY) -> Event:
    return Event(kind, "it happened", vpn=vpn, client=client, wall_ms=0)


def test_the_line_names_scope_event_vpn_and_client() -> None:
    """Solace 9.5: `SCOPE: EVENT: <vpn|-> <client|-> <description>`."""
    assert (
        event(SYSTEM_STARTUP_COMPLETE, vpn=NOBODY).text() == "SYSTEM: SYSTEM_SYSTEM_STARTUP_COMPLETE: - - it happened"
    )
    assert event(CLIENT_CONNECTED, client="c1").text() == "CLIENT: CLIENT_CLIENT_CONNECT: default c1 it happened"


@pytest.mark.parametrize(
    ("client", "word"),
    [
        ("c1", "c1"),
        ("a/b:c@d-e_f#g%h", "a/b:c@d-e_f#g%h"),
        ("gr\u00fcn", "gr\u00fcn"),
        ("c1 it happened", "'c1 it happened'"),
        ("c1=x", "'c1=x'"),
        ("o'neill", '"o\'neill"'),
        ("a\\b", "'a\\\\b'"),
        ("\u202ex\n", "'\\u202ex\\n'"),
        ("", "''"),
    ],
)
def test_a_name_that_could_be_read_as_more_than_one_word_has_quotes(client: str, word: str) -> None:
    """Who chooses `x it happened` for a name does not make it happen to `x`."""
    assert as_word(client) == word
    assert event(CLIENT_CONNECTED, client=client).text().endswith(f": default {word} it happened")


@pytest.mark.parametrize(
    ("given_event", "prefix", "topic"),
    [
        (event(SYSTEM_STARTUP_COMPLETE), SMF_PREFIX, "#LOG/NOTICE/SYSTEM/gate/SYSTEM_SYSTEM_STARTUP_COMPLETE"),
        (event(VPN_QUEUE_CREATED), MQTT_PREFIX, "$SYS/LOG/INFO/VPN/gate/VPN_AD_QENDPT_CREATE/default"),
        (event(CLIENT_CONNECTED, client="c1"), SMF_PREFIX, "#LOG/INFO/CLIENT/gate/CLIENT_CLIENT_CONNECT/default/c1"),
    ],
)
def test_the_topic_has_a_level_for_each_thing_one_may_want_to_choose_by(
    given_event: Event, prefix: str, topic: str
) -> None:
    """Solace 9.5."""
    assert given_event.topic(prefix, "gate") == topic


@given(client=st.text(min_size=1, max_size=400))
def test_whatever_a_client_calls_itself_is_one_level_of_a_topic(client: str) -> None:
    """Goal: no name adds levels, or characters that MQTT forbids in topics [3.3.2-2]."""
    topic = event(CLIENT_CONNECTED, client=client).topic(MQTT_PREFIX, "gate")
    assert topic.count("/") == 7
    assert not set("+#\0") & set(topic)


def test_every_kind_has_a_name_of_its_own() -> None:
    kinds = [each for each in vars(events).values() if isinstance(each, EventKind)]
    assert len({kind.name for kind in kinds}) == len(kinds) > 20


@given(gaps_ms=st.lists(st.integers(0, 2000), min_size=1, max_size=800))
def test_no_more_events_come_than_the_allowance(gaps_ms: list[int]) -> None:
    """Goal: over any stretch at most BURST plus RATE_PER_S for each second. Method: count from the start on."""
    allowance = EventAllowance(0)
    now_ms = taken = 0
    for gap_ms in gaps_ms:
        now_ms += gap_ms
        taken += allowance.take(now_ms)
        assert taken <= BURST + now_ms * RATE_PER_S / 1000


def test_after_a_flood_events_come_again() -> None:
    allowance = EventAllowance(0)
    assert [allowance.take(0) for _ in range(BURST + 1)] == [True] * BURST + [False]
    assert not allowance.take(1000 // RATE_PER_S - 1)
    assert allowance.take(1000 // RATE_PER_S)
