"""Message VPNs that operators create, change and delete while the node runs.

The row of a message VPN is on disk before the VPN exists. A deletion is on disk before anything is deleted; from then
on it is carried out to its end, by the next start if this process does not live so long
(`gateway.node.recovery.read_store`).
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

from sluicegate.actors.messages.data import StoreRefused
from sluicegate.actors.messages.directory import ListQueues, LocalQueue
from sluicegate.actors.messages.spool import PurgeFromStore
from sluicegate.actors.messages.staging import DescribeStaging, StagingOverview
from sluicegate.actors.spool.catalog import WriteWholeRows
from sluicegate.gateway.config.sections.message_vpns.message_vpns import MessageVpn as MessageVpnSection
from sluicegate.gateway.node.servers.server import ProtocolServer
from sluicegate.gateway.node.services import NodeServices
from sluicegate.gateway.node.vpn import MessageVpn
from sluicegate.gateway.provisioning.message_vpns import MessageVpnSettings, ProvisionedVpns, settings_of
from sluicegate.gateway.provisioning.queues import LINK_PREFIX
from sluicegate.gateway.security.credentials import ConfiguredCredentials, read_credentials
from sluicegate.gateway.views.errors import Refused
from sluicegate.gateway.views.text import counted
from sluicegate.messaging.message.vpn import DEFAULT_VPN, row_prefix
from sluicegate.messaging.observability.events import SYSTEM_VPN_CREATED, SYSTEM_VPN_DELETED
from sluicegate.storage.catalog.partition_owners import owned_partition
from sluicegate.storage.catalog.vpn_rows import rows_deleted, vpn_row
from sluicegate.storage.errors import StorageError
from sluicegate.storage.interface import Table, TableWrite

log = logging.getLogger("sluicegate.node")

USER_GONE: Final = "the user is shut down"
SHUT_DOWN: Final = "the message VPN is shut down"
DELETED: Final = "the message VPN is deleted"
LEAVE_S: Final = 5  # for clients to close their connections; the flow protocol gives them two
LOOK_AGAIN_S: Final = 0.01

T = TypeVar("T")


class VpnChanges:
    """Creates, changes and deletes message VPNs, one change at a time.

    A change runs to its end even if its caller no longer waits. Invariant: the configuration in force has every message
    VPN in `defined`, and none whose deletion was decided.
    """

    def __init__(
        self,
        services: NodeServices,
        vpns: dict[str, MessageVpn],
        servers: Sequence[ProtocolServer[Any, Any]],
        *,
        lock: asyncio.Lock,
        add: Callable[[str, ConfiguredCredentials], MessageVpn],
        put_in_force: Callable[[MessageVpn], Coroutine[Any, Any, None]],
        link: Callable[[], Coroutine[Any, Any, None]],
        send_away: Callable[[MessageVpn, str, frozenset[str] | None], None],
    ) -> None:
        """`add` makes a message VPN, `put_in_force` starts it or has it reload, `send_away` disconnects clients.

        `link` has links follow what has changed, before clients do.
        """
        self._services = services
        self._vpns = vpns
        self._servers = servers
        self._lock = lock  # also held by starts and reloads of the node
        self._add = add
        self._put_in_force = put_in_force
        self._link = link
        self._send_away = send_away
        self._is_ended = False

    @property
    def defined(self) -> ProvisionedVpns:
        """The message VPNs by where they are defined."""
        return self._services.provisioned_vpns

    async def create(self, asked: Mapping[str, object]) -> str:
        """Create a message VPN; return its name. Raises VpnAlreadyExists, QueueInvalid, Refused, StoreRefused."""
        return await self._to_its_end(self._create(asked))

    async def change(self, name: str, changes: Mapping[str, object]) -> None:
        """Change settings of a message VPN. Shutting it down disconnects its clients.

        One that is in the store only is defined by operators from now on. Raises VpnNotFound, QueueInvalid, Refused,
        StoreRefused.
        """
        await self._to_its_end(self._change(name, changes))

    async def delete(self, name: str, *, force: bool) -> None:
        """Delete a message VPN with everything in it. Without `force` it must have no clients and no messages.

        Raises VpnNotFound, Refused, StoreRefused. After StoreRefused, nothing was deleted; or, if the store failed in
        the middle, the VPN is gone, and what the store still has of it goes with the next attempt or start.
        """
        await self._to_its_end(self._delete(name, force=force))

    # --- create and change ---

    async def _create(self, asked: Mapping[str, object]) -> str:
        settings = self.defined.new(asked, self._vpns)
        name = settings.name
        await self._write([vpn_row(name, settings.to_dict())])
        credentials = self._define(settings)
        vpn = self._add(name, credentials)
        await self._put_in_force(vpn)
        await self._link()
        for server in self._servers:
            server.vpn_created(vpn)
        self._services.runtime.events.emit(SYSTEM_VPN_CREATED, f"Message VPN {name} created")
        vpn.tell_state(was_up=False)
        return name

    async def _change(self, name: str, changes: Mapping[str, object]) -> None:
        settings = self.defined.changed(name, changes, self._vpns)
        await self._write([vpn_row(name, settings.to_dict())])
        vpn = self._vpns[name]
        was_up = vpn.is_up
        users_gone = vpn.configure(self._define(settings))
        await self._put_in_force(vpn)
        await self._link()
        for server in self._servers:
            server.vpn_created(vpn)
        if vpn.config.enabled:
            self._send_away(vpn, USER_GONE, users_gone)
        else:
            self._send_away(vpn, SHUT_DOWN, None)
        await vpn.rest.start()
        await vpn.bridges.start()
        vpn.tell_state(was_up=was_up)

    def _define(self, settings: MessageVpnSettings) -> ConfiguredCredentials:
        """Put settings into the configuration in force. Return the credentials of its section."""
        self.defined.settings[settings.name] = settings
        section = settings.section()
        self._configure(settings.name, section)
        authentication = section.authentication
        return read_credentials(authentication.users, authentication.oauth, self._services.clock.wall_ms)

    def _configure(self, name: str, section: MessageVpnSection | None) -> None:
        vpns = {each: other for each, other in self._services.config.vpns.items() if each != name}
        if section is not None:
            vpns[name] = section
        self._services.config = self._services.config.model_copy(update={"vpns": vpns})

    # --- delete ---

    async def _delete(self, name: str, *, force: bool) -> None:
        if name in self.defined.deleting and name not in self._vpns:  # the store failed in the middle
            await self._erase(name)
            return
        instead = "remove it from the configuration and reload, and then delete it"
        self.defined.check_changeable(name, self._vpns, instead)
        vpn = self._vpns[name]
        if not force:
            await _check_empty(vpn)
        was_up = vpn.is_up
        settings = self.defined.settings.get(name) or settings_of(name, vpn.config)
        vpn.shut(is_shut=True)  # before the first wait: no client comes meanwhile
        try:
            await self._write([vpn_row(name, settings.to_dict(), deleting=True)], uses_reserve=True)
        except BaseException:
            vpn.shut(is_shut=False)
            raise
        log.info("message VPN %r is being deleted", name)
        self.defined.deleting.add(name)
        self.defined.settings.pop(name, None)
        self._configure(name, None)
        for server in self._servers:
            server.vpn_deleted(name)
        await self._end_connections(vpn)
        await vpn.end()
        del self._vpns[name]
        vpn.tell_state(was_up=was_up)
        await self._erase(name)

    async def _end_connections(self, vpn: MessageVpn) -> None:
        """Disconnect the clients of a message VPN, in the way of their protocols; those that stay, all the same."""
        clock = self._services.clock
        self._send_away(vpn, DELETED, None)
        deadline_ms = clock.now_ms() + LEAVE_S * 1000
        while left := [each for server in self._servers for each in server.connections_in(vpn.name)]:
            if clock.now_ms() > deadline_ms:
                log.warning("%s of message VPN %r did not close in time", counted(len(left), "connection"), vpn.name)
                for connection in left:
                    connection.fail()
                deadline_ms += LEAVE_S * 1000
            await asyncio.sleep(LOOK_AGAIN_S)

    async def _erase(self, name: str) -> None:
        """Delete what the store has of a message VPN that has ended. Raises StoreRefused."""
        services, prefix = self._services, row_prefix(name)
        await self._write([], until_done=True)  # the spool has written all that came from its actors
        try:
            keys = await asyncio.to_thread(services.store.row_keys, prefix)
        except StorageError as error:
            raise StoreRefused(str(error)) from None
        for key in keys[Table.OWNERS]:
            services.spool.inbox.post(PurgeFromStore(owned_partition(key)))
        for writes in rows_deleted(name, keys):
            await self._write(writes, until_done=True)
        self.defined.deleting.discard(name)
        services.runtime.events.emit(SYSTEM_VPN_DELETED, f"Message VPN {name} deleted")

    async def _write(self, rows: list[TableWrite], *, until_done: bool = False, uses_reserve: bool = False) -> None:
        await self._vpns[DEFAULT_VPN].catalog.ask(WriteWholeRows(rows, until_done, uses_reserve))

    async def _to_its_end(self, change: Coroutine[Any, Any, T]) -> T:
        """Carry out a change when those before it are done. It goes on if its caller no longer waits."""

        async def one_at_a_time() -> T:
            async with self._lock:
                if self._is_ended:
                    change.close()
                    raise Refused("the node stops")
                return await change

        task = asyncio.create_task(one_at_a_time())
        self._services.runtime.keep(task)
        return await asyncio.shield(task)

    async def end(self, within_s: float) -> None:
        """Begin no other change, and wait for the one under way, for so long at most: the node stops."""
        self._is_ended = True
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s), self._lock:
                return
        log.warning("a change of a message VPN or a reload is not finished after %d s; going on", within_s)


async def _check_empty(vpn: MessageVpn) -> None:
    """Raise Refused while a message VPN has clients or messages, or queues that could get some."""
    staging: StagingOverview = await vpn.staging.ask(DescribeStaging())
    has = [
        (vpn.clients.count, "connected client"),
        (vpn.queues_count - await _idle_link_queues(vpn), "queue"),
        (vpn.sessions_count, "MQTT session"),
        (vpn.space.retained.count, "retained message"),
        (staging.open_count, "staged transaction"),
    ]
    found = [counted(count, what) for count, what in has if count]
    if found:
        listed = found[0] if len(found) == 1 else f"{', '.join(found[:-1])} and {found[-1]}"
        text = f"message VPN {vpn.name!r} has {listed}: only a forced deletion deletes one that is not empty"
        raise Refused(text)


async def _idle_link_queues(vpn: MessageVpn) -> int:
    """Return how many queues of links hold nothing: they are made again wherever the message VPN is linked."""
    queues: list[LocalQueue] = await vpn.queues.ask(ListQueues())
    return len([each for each in queues if each.name.startswith(LINK_PREFIX) and each.target.gate.usage_count == 0])
