"""The record of a session that moves to another broker of the machine: what a restart would read, without sequences.

At the new home the messages of the session's queue have other sequences, in the same order. So the record has places:
0 is the oldest message. A message that has a packet id is never dropped for its age, so places stay what they are if no
other message is before it.
"""

from collections.abc import Iterable
from typing import Any, Final

import orjson

from sluicegate.actors.messages.directory import UpdateRefused
from sluicegate.actors.messages.sessions import SessionRow
from sluicegate.protocols.mqtt.session.session import Session

Ranges = list[tuple[int, int]]

RECEIVED: Final = b"1"  # the value of such a row, which is not looked at


def check_is_own(session: Session) -> None:
    """Raise UpdateRefused for a session whose messages are those of others as well."""
    if session.shares:
        raise UpdateRefused(f"session {session.client_id!r} has shared subscriptions: it stays until they end")


def check_is_decided(session: Session) -> None:
    """Raise UpdateRefused while the store has yet to decide about what the client has left behind."""
    published = [each for each in session.undecided.values() if each is not None]
    if session.absence().will_published is not None or not all(each.confirmed or each.refused for each in published):
        raise UpdateRefused(f"what client {session.client_id!r} has published is being stored")
    for packet_id, publication in list(session.undecided.items()):
        del session.undecided[packet_id]
        if publication is not None and publication.refused:  # so it was not received
            session.received.discard(packet_id, packet_id + 1)


def in_flight(session: Session) -> Ranges:
    """Return the sequences that have packet ids, or were received, as half-open ranges in order."""
    return session.ids.ranges_of_client()


def obstacle_to(session: Session, unsettled: Ranges) -> str:
    """Return why places would not stay what they are: a message before one with a packet id has none."""
    known = in_flight(session)
    if not known:
        return ""
    end = known[-1][1]
    before = sum([min(stop, end) - first for first, stop in unsettled if first < end])
    held = sum([last - start for first, stop in known for start, last in _within(unsettled, first, stop)])
    return "" if before == held else "an older message of it waits for its time of delivery"


def record_of(session: Session, state: bytes, ids: bytes | None, unsettled: Ranges) -> str:
    """Return the record. `state` and `ids` are the rows as the store would have them here."""
    row = orjson.loads(state)
    row["maybe_sent_below"] = sum(
        [min(end, row["maybe_sent_below"]) - first for first, end in unsettled if first < row["maybe_sent_below"]]
    )
    found = None if ids is None else orjson.loads(ids)
    if found is not None:
        found["sent"] = [
            [place, packet_id + shift, count, qos]
            for first, packet_id, run, qos in found["sent"]
            for place, shift, count in _places(unsettled, first, run)
        ]
        found["taken"] = [
            [place, place + count]
            for first, end in found["taken"][1]
            for place, _, count in _places(unsettled, first, end - first)
        ]
    return orjson.dumps(
        {
            "client": session.client_id,
            "state": row,
            "ids": found,
            "received": [each for first, end in session.received.ranges() for each in range(first, end)],
            "subscriptions": [(text, value.decode()) for text, value in session.subscription_rows().items()],
        }
    ).decode()


def rows_in(record: str, partition_id: int, unsettled: Ranges) -> list[SessionRow]:
    """Return the rows of a session that comes, whose messages have these sequences. Raises ValueError."""
    try:
        known = orjson.loads(record)
        session = Session(str(known["client"]), expiry_s=0)
        state, ids = known["state"], known["ids"]
        below = int(state["maybe_sent_below"])
        state["maybe_sent_below"] = _sequences(unsettled, below - 1, 1)[0][0] + 1 if below else 0
        rows: list[SessionRow] = [(session.state_key(), orjson.dumps(state))]
        if ids is not None:
            rows.append((session.ids_key(), orjson.dumps(_with_sequences(ids, partition_id, unsettled))))
        rows += [(session.received_key(int(each)), RECEIVED) for each in known["received"]]
        rows += [(session.subscription_key(text), value.encode()) for text, value in known["subscriptions"]]
    except (KeyError, TypeError, IndexError) as error:
        raise ValueError(f"the record of a session that moves: {error!r}") from None
    return rows


def _with_sequences(ids: dict[str, Any], partition_id: int, unsettled: Ranges) -> dict[str, Any]:
    sent = [
        [first, packet_id + shift, count, qos]
        for place, packet_id, run, qos in ids["sent"]
        for first, shift, count in _sequences(unsettled, place, run)
    ]
    taken = [
        [start, start + count]
        for first, end in ids["taken"]
        for start, _, count in _sequences(unsettled, first, end - first)
    ]
    return {**ids, "sent": sent, "taken": [partition_id, taken]}


def _within(ranges: Iterable[tuple[int, int]], first: int, end: int) -> Ranges:
    """Return the parts of ranges within another one."""
    return [(max(first, start), min(end, stop)) for start, stop in ranges if start < end and stop > first]


def _places(unsettled: Ranges, first: int, count: int) -> list[tuple[int, int, int]]:
    """Return the places of the unsettled ones of `count` sequences: of each run the first, its offset, its length."""
    found: list[tuple[int, int, int]] = []
    place = 0
    for start, stop in unsettled:
        for begin, end in _within([(start, stop)], first, first + count):
            found.append((place + begin - start, begin - first, end - begin))
        place += stop - start
    return found


def _sequences(unsettled: Ranges, place: int, count: int) -> list[tuple[int, int, int]]:
    """Return the sequences at `count` places: of each run the first, its offset, its length."""
    found: list[tuple[int, int, int]] = []
    passed = 0
    for start, stop in unsettled:
        for begin, end in _within([(passed, passed + stop - start)], place, place + count):
            found.append((start + begin - passed, begin - place, end - begin))
        passed += stop - start
    return found
