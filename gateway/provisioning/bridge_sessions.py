"""The topic filters that sessions of bridges have at foreign brokers over MQTT, kept over restarts.

A foreign broker keeps the subscriptions of a session until it expires, and goes on sending what they match, also when
the configuration has changed while we were stopped. So what was subscribed to is stored before a bridge connects, and
what no rule has any more is unsubscribed from with the next connection.
"""

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, final

import orjson

from sluicegate.actors.messages.data import StoreRefused
from sluicegate.actors.spool.catalog import WriteRow
from sluicegate.gateway.provisioning.store import VpnAccess
from sluicegate.protocols.bridges.remote import Opened
from sluicegate.protocols.bridges.settings import BridgeSettings, Protocol
from sluicegate.storage.interface import Table, TableWrite

ROW_KEY: Final = b"bridge-session/"
SESSIONS_MAX: Final = 300  # in one message VPN: those of bridges that are no more are forgotten then
_MQTT: Final = (Protocol.MQTT_3, Protocol.MQTT_5)

log = logging.getLogger("sluicegate.bridges")


@dataclass(frozen=True, slots=True)
class _Session:
    """A session at a foreign broker, and what it may have subscribed to."""

    remote_url: str
    client_id: str
    filters: tuple[str, ...]

    def is_of(self, settings: BridgeSettings) -> bool:
        """Return whether a bridge with these settings continues this session."""
        return (self.remote_url, self.client_id) == (settings.remote.url(), settings.remote.client_id)

    def written(self) -> bytes:
        """Return its row."""
        return orjson.dumps({"remote_url": self.remote_url, "client_id": self.client_id, "filters": self.filters})


def _read(row: bytes) -> _Session:
    """Return the session of a row. Raises ValueError."""
    fields: Any = orjson.loads(row)
    try:
        return _Session(str(fields["remote_url"]), str(fields["client_id"]), tuple(map(str, fields["filters"])))
    except (KeyError, TypeError) as problem:
        raise ValueError(repr(problem)) from None


@final
class BridgeSessions:
    """The sessions of the bridges of one message VPN, by the name of the bridge."""

    def __init__(self, vpn: VpnAccess, catalog: Mapping[bytes, bytes]) -> None:
        self._vpn = vpn
        self._sessions: dict[str, _Session] = {}
        self._unwritten: set[str] = set()  # names of sessions that the store has refused
        self._latest: dict[str, BridgeSettings] = {}  # those that a bridge has begun with last
        for key, row in catalog.items():
            if key.startswith(ROW_KEY):
                name = key.removeprefix(ROW_KEY).decode(errors="backslashreplace")
                try:
                    self._sessions[name] = _read(row)
                except ValueError as problem:
                    log.error("the subscriptions of bridge %r in the store cannot be read: %s", name, problem)

    async def before_connecting(self, settings: BridgeSettings, defined: Collection[str]) -> tuple[str, ...]:
        """Store what a bridge is going to subscribe to; return what its session may have beside that.

        `defined` are the names of all bridges there are.
        """
        if settings.remote.protocol not in _MQTT:
            return ()
        self._latest = {name: each for name, each in self._latest.items() if name in defined}
        self._latest[settings.name] = settings
        known = self._sessions.get(settings.name)
        earlier = known.filters if known is not None and known.is_of(settings) else ()
        wanted = _filters(settings)
        await self._forget_some(defined)
        await self._keep(settings, tuple(dict.fromkeys([*wanted, *earlier])))
        return tuple(each for each in earlier if each not in wanted)

    async def after_connecting(self, settings: BridgeSettings, opened: Opened) -> None:
        """Store what a bridge has subscribed to, without what it has unsubscribed from.

        Does nothing for settings that the bridge has no more: the session may have other subscriptions by now.
        """
        if settings.name not in self._sessions or self._latest.get(settings.name) != settings:
            return
        if opened.still_subscribed:
            log.warning(
                "bridge %r: %s does not let go of the subscriptions %s, which no rule has; their messages are dropped",
                settings.name,
                settings.remote.url(),
                ", ".join(opened.still_subscribed),
            )
        await self._keep(settings, (*_filters(settings), *opened.still_subscribed))

    def row(self, name: str) -> bytes | None:
        """Return the row of a bridge's session, for another broker of the machine; None: it has none."""
        session = self._sessions.get(name)
        return None if session is None else session.written()

    async def adopt(self, name: str, row: bytes) -> None:
        """Store the session of a bridge that another broker of the machine has had."""
        self._sessions[name] = _read(row)
        await self._write(name, row)

    async def _keep(self, settings: BridgeSettings, filters: tuple[str, ...]) -> None:
        session = _Session(settings.remote.url(), settings.remote.client_id, filters)
        name = settings.name
        if not filters and name not in self._sessions:
            return
        if session != self._sessions.get(name) or name in self._unwritten:
            self._sessions[name] = session
            await self._write(name, session.written())

    async def _forget_some(self, defined: Collection[str]) -> None:
        """Forget a session of a bridge that is no more, where there are too many."""
        if len(self._sessions) >= SESSIONS_MAX:
            for name in [each for each in self._sessions if each not in defined][:1]:
                del self._sessions[name]
                await self._write(name, None)

    async def _write(self, name: str, row: bytes | None) -> None:
        self._unwritten.discard(name)
        try:
            await self._vpn.write_row(WriteRow(TableWrite(Table.CATALOG, ROW_KEY + name.encode(), row)))
        except StoreRefused as refusal:  # the bridge runs all the same
            if name in self._sessions:
                self._unwritten.add(name)
            log.error("the subscriptions of bridge %r are not stored: %s", name, refusal)


def _filters(settings: BridgeSettings) -> tuple[str, ...]:
    return tuple(rule.source for rule in settings.incoming)
