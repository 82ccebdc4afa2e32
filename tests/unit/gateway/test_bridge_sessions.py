"""The subscriptions of bridges that are kept over restarts."""

import asyncio
from collections.abc import Collection
from typing import Any

from sluicegate.actors.messages.data import StoreRefused
from sluicegate.actors.spool.catalog import WriteRow
from sluicegate.gateway.config.sections.message_vpns.message_vpns import MessageVpn
from sluicegate.gateway.provisioning.bridge_sessions import SESSIONS_MAX, BridgeSessions
from sluicegate.gateway.provisioning.store import VpnAccess
from sluicegate.messaging.clients.roster import ClientRoster
from sluicegate.protocols.bridges.remote import Opened
from support.bridges.settings import settings


class Rig:
    """Sessions over a catalog in memory, which outlives them."""

    def __init__(self) -> None:
        self.catalog: dict[bytes, bytes] = {}
        self.refusal = ""
        self.writes_count = 0
        self.restart()

    def restart(self) -> None:
        self.sessions = BridgeSessions(VpnAccess(MessageVpn(), ClientRoster(), self._write), self.catalog)

    async def _write(self, write: WriteRow) -> None:
        if self.refusal:
            raise StoreRefused(self.refusal)
        self.writes_count += 1
        if write.row.value is None:
            del self.catalog[write.row.key]
        else:
            self.catalog[write.row.key] = write.row.value

    def begins(self, *filters: str, defined: Collection[str] = ("b",), **given: Any) -> tuple[str, ...]:
        """Let a bridge with these filters begin; return what it is to unsubscribe from."""
        made = settings(incoming=[{"remote_topic": each} for each in filters], **given)
        return asyncio.run(self.sessions.before_connecting(made, defined))

    def opens(self, *filters: str, still_subscribed: tuple[str, ...] = ()) -> None:
        made = settings(incoming=[{"remote_topic": each} for each in filters])
        asyncio.run(self.sessions.after_connecting(made, Opened(still_subscribed=still_subscribed)))


def test_what_was_subscribed_to_and_is_not_wanted_is_unsubscribed_from_once() -> None:
    rig = Rig()
    assert rig.begins("a", "b") == ()
    rig.restart()
    assert rig.begins("b", "c") == ("a",)
    rig.restart()
    assert rig.begins("c") == ("b", "a"), "no connection was made meanwhile"
    rig.opens("c")
    rig.restart()
    assert rig.begins("c") == ()


def test_what_the_foreign_broker_does_not_let_go_of_is_tried_again() -> None:
    rig = Rig()
    rig.begins("a", "b")
    assert rig.begins("b") == ("a",)
    rig.opens("b", still_subscribed=("a",))
    rig.restart()
    assert rig.begins("b") == ("a",)


def test_another_client_identifier_or_broker_is_another_session() -> None:
    for other in ({"client_id": "other"}, {"remote_url": "mqtt://other.example"}):
        rig = Rig()
        rig.begins("a")
        assert rig.begins("b", **other) == ()
        rig.opens("a")
        assert rig.begins("b", **other) == (), "the old connection says nothing of it"


def test_other_protocols_have_no_session_of_this_kind() -> None:
    rig = Rig()
    assert rig.begins("a", remote_url="amqp://other.example") == ()
    assert not rig.catalog


def test_nothing_is_written_where_nothing_changes() -> None:
    rig = Rig()
    rig.begins("a")
    rig.opens("a")
    rig.begins("a")
    assert rig.writes_count == 1


def test_a_store_that_takes_nothing_stops_no_bridge() -> None:
    rig = Rig()
    rig.refusal = "it is full"
    assert rig.begins("a") == ()
    assert rig.begins("b") == ("a",), "it is known while this process runs"


def test_what_the_store_has_refused_is_written_when_it_takes_something_again() -> None:
    rig = Rig()
    rig.refusal = "it is full"
    rig.begins("a")
    rig.refusal = ""
    rig.opens("a")
    rig.restart()
    assert rig.begins("b") == ("a",)


def test_a_connection_of_earlier_settings_does_not_change_what_later_ones_have_stored() -> None:
    """Its opening is reported in a task, which may run when the bridge has been changed meanwhile."""
    rig = Rig()
    rig.begins("a")
    rig.begins("b")
    rig.opens("a")
    rig.restart()
    assert rig.begins("c") == ("b", "a")


def test_sessions_of_bridges_that_are_no_more_are_forgotten_when_there_are_many() -> None:
    rig = Rig()
    for number in range(SESSIONS_MAX + 5):
        rig.begins("a", defined=(), name=f"b{number}")
    assert len(rig.catalog) == SESSIONS_MAX


def test_a_row_that_cannot_be_read_is_passed_over() -> None:
    rig = Rig()
    rig.begins("a")
    [key] = rig.catalog
    rig.catalog[key] = b"{}"
    rig.restart()
    assert rig.begins("b") == ()
