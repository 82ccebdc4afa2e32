"""MQTT sessions in the store: the rows read back at start."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, final

import orjson

from sluicegate.messaging.message.batch import AT_LEAST_ONCE, EXACTLY_ONCE
from sluicegate.messaging.selectors.selector import Selector, Selectors
from sluicegate.messaging.topics.syntax import Syntax, parse_subscription
from sluicegate.protocols.mqtt.session.packet_ids import NOT_BOUND
from sluicegate.protocols.mqtt.session.session import (
    IDS_ROW,
    RECEIVED_ROW,
    STATE_ROW,
    SUBSCRIPTION_ROW,
    ExtraSubscription,
    Session,
)
from sluicegate.protocols.mqtt.session.subscriptions import GrantedSubscription

_ROWS_BESIDE: Final = (SUBSCRIPTION_ROW, IDS_ROW, RECEIVED_ROW)  # beside the row of the session itself


@final
class StoredSession:
    """The stored rows of a session."""

    def __init__(
        self,
        client_id: str,
        state: bytes,
        ids: bytes | None,
        received: list[int],
        subscriptions: list[bytes],
        selectors: Selectors,
        *,
        row_prefix: bytes,
    ) -> None:
        row = orjson.loads(state)
        self._selectors = selectors
        self.session = Session(client_id, expiry_s=row["expiry_s"], row_prefix=row_prefix)
        self.session.user = row.get("user", "")  # earlier releases wrote none
        self.session.was_stored = True
        self.session.set_stored_row(state)
        self.closed_wall_ms: int = row["closed_wall_ms"]
        self.will: dict[str, Any] | None = row["will"]
        self.extras: list[ExtraSubscription] = []
        for each in row.get("subscriptions", ()):  # earlier releases wrote all subscriptions into this row
            self._take_subscription(*each)
            self.session.changed(each[0])
        for each in row.get("extras", ()):
            self._take_extra(*each)
            self.session.changed(each[0])
        for stored in subscriptions:
            found = orjson.loads(stored)
            if "extra" in found:
                self._take_extra(*found["extra"])
            else:
                self._take_subscription(*found["subscription"])
        maybe_sent_below: int = row.get("maybe_sent_below", 0)
        if maybe_sent_below:
            self.session.ids.maybe_sent_below = maybe_sent_below
        if ids is not None:
            self._take_ids(orjson.loads(ids))
        for packet_id in received:
            self.session.received.add(packet_id, packet_id + 1)

    def _take_subscription(
        self,
        text: str,
        qos: int,
        no_local: bool,
        retain_as_published: bool,
        retain_handling: int,
        identifier: int,
        selector: str | None = None,
        priorities: Iterable[int] = (),
    ) -> None:
        """Take a subscription as it was stored; earlier releases wrote neither a selector nor priorities."""
        granted = GrantedSubscription(
            parse_subscription(text, Syntax.MQTT),
            qos,
            no_local,
            retain_as_published,
            retain_handling,
            identifier,
            self._selector(selector),
            tuple(priorities),
        )
        self.session.grant(text, granted)

    def _take_extra(
        self,
        text: str,
        qos: int,
        identifier: int,
        retain_as_published: bool,
        queue_name: str,
        selector: str | None = None,
    ) -> None:
        found = self._selector(selector)
        self.extras.append(ExtraSubscription(text, qos, identifier, retain_as_published, queue_name, found))

    def _selector(self, text: str | None) -> Selector | None:
        return None if text is None else self._selectors.compile_accepted(text)

    def _take_ids(self, row: dict[str, Any]) -> None:
        session = self.session
        session.ids_were_stored = True
        for first, end in row["released"]:
            session.released.add(first, end)
        for run in _runs(row["sent"], set(row.get("once", ()))):
            session.ids.remember(*run)
        session.ids.partition_id, taken = row.get("taken", (NOT_BOUND, ()))  # earlier releases wrote none
        for first, end in taken:
            session.ids.received.add(first, end)
        by_text = {extra.filter_text: extra for extra in self.extras}
        for text, partition_id, sent, *more in row.get("shared", []):
            extra = by_text.get(text)
            runs = _runs(sent, None)
            if extra is None:  # unsubscribed, and stored before this row
                for _, packet_id, count, _ in runs:
                    session.released.add(packet_id, packet_id + count)
                continue
            extra.ids.partition_id = partition_id
            for run in runs:
                extra.ids.remember(*run)
            for first, end in more[0] if more else ():
                extra.ids.received.add(first, end)


def _runs(sent: Iterable[list[int]], once: set[int] | None) -> list[tuple[int, int, int, int]]:
    """Return what was sent as `(first sequence, first packet id, count, QoS)`.

    Earlier releases wrote a sequence and its packet id for each message, and in `once` which ids are of QoS 2, if they
    did; None: all are.
    """
    runs: list[tuple[int, int, int, int]] = []
    for sequence, packet_id, *more in sent:
        qos = EXACTLY_ONCE if once is None or packet_id in once else AT_LEAST_ONCE
        count, qos = more or (1, qos)
        runs.append((sequence, packet_id, count, qos))
    return runs


def received_by_client(rows: Iterable[bytes]) -> dict[str, list[int]]:
    """Return which ids each client's publishes were received under."""
    received: dict[str, list[int]] = {}
    for key in rows:
        if key.startswith(RECEIVED_ROW):
            client_id = key[len(RECEIVED_ROW) : -3].decode()
            received.setdefault(client_id, []).append(int.from_bytes(key[-2:], "big"))
    return received


def subscriptions_by_client(rows: dict[bytes, bytes]) -> dict[str, list[bytes]]:
    """Return the rows of each client's subscriptions."""
    found: dict[str, list[bytes]] = {}
    for key, row in rows.items():
        if key.startswith(SUBSCRIPTION_ROW):
            client_id, _, _ = key[len(SUBSCRIPTION_ROW) :].partition(b"\x00")
            found.setdefault(client_id.decode(), []).append(row)
    return found


def rows_left_behind(rows: Mapping[bytes, bytes]) -> list[bytes]:
    """Return the keys of the rows of sessions whose state row is not there: it could not be read."""
    return [
        key
        for key in rows
        for kind in _ROWS_BESIDE
        if key.startswith(kind) and STATE_ROW + key[len(kind) :].partition(b"\x00")[0] not in rows
    ]
