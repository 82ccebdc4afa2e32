"""When a replica of one of two sites may take over the broker, and what it does at the begin and the end of that."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, final

from sluicegate.gateway.cluster.log.spool import ReplicaSpool
from sluicegate.gateway.cluster.membership.members import Members
from sluicegate.gateway.cluster.sites.promotion import skip_sequences
from sluicegate.gateway.cluster.sites.replication import SiteReplication
from sluicegate.storage.errors import StorageError
from sluicegate.storage.interface import Store
from sluicegate.storage.replication.ownership.lease import Stopped, Taken
from sluicegate.storage.replication.replica import Role
from sluicegate.storage.replication.sites.states import Decision, SiteRole

log = logging.getLogger("sluicegate.cluster")


class SitesChanged(NamedTuple):
    """This site or the other one has another state."""


Change = Taken | Stopped | SitesChanged


@final
class SiteTurns:
    """The turns of one replica as its site has them. For the event loop of the process."""

    def __init__(self, sites: SiteReplication, spool: ReplicaSpool, members: Callable[[], Members]) -> None:
        self._sites: Final = sites
        self._spool: Final = spool
        self._members: Final = members

    async def until_ours(self, next_change: Callable[[], Awaitable[Change | None]]) -> bool:
        """Return whether this replica, which has the key of its site's owners, may take over the broker.

        At a standby site it receives the log of the other one, until that changes or the key is lost. `next_change`
        returns the next change of ownership or of the sites, None when the replica ends before.
        """
        is_asking = False
        try:
            while True:
                match self._sites.decision(is_continued=self._members().has_owner_been_heard):
                    case Decision.SERVE:
                        return True
                    case Decision.YIELD:
                        await self._sites.note_demoted()
                        continue
                    case Decision.RECEIVE:
                        self._sites.receive()
                        self._spool.receives = True
                    case Decision.ASK if not is_asking:
                        is_asking = True
                        log.warning(
                            "site %s does not answer, and may have been promoted: this one serves when it answers, or "
                            "by `sluicegate replication promote`",
                            self._sites.settings.mate,
                        )
                change = await next_change()
                if change is None or isinstance(change, Stopped):
                    return False
        finally:
            self._sites.stop_receiving()
            self._spool.receives = False

    def take_over(self) -> None:
        """Have the owner's first message say which site it is of."""
        self._spool.replica.site = self._sites.settings.site
        self._spool.replica.site_epoch = self._sites.state.epoch

    async def begin(self, store: Store) -> bool:
        """Do what is to be done before a node serves; return whether one is to serve. Raises StorageError."""
        first = self._spool.replica.read_through
        if self._sites.state.role is SiteRole.DEMOTING:  # the owner before this one has not come to its end
            await self.give_up()
            return False
        if self._sites.state.skips:
            self._spool.replica.clean = None  # its cursors know nothing of what was lost
            await asyncio.to_thread(skip_sequences, store)
        await self._sites.begin_to_serve(first)
        return True

    def stop(self) -> None:
        """Have the end of the node's log give the broker up to the other site."""
        self._spool.replica.hands_to = self._sites.settings.mate

    async def give_up(self) -> None:
        """Write to the log that the other site has the broker, if that is not there. Nothing is committed any more."""
        replica, mate = self._spool.replica, self._sites.settings.mate
        try:
            if replica.handed is None and (replica.role is not Role.OWNER or replica.is_waiting()):
                log.warning("whether the log gives the broker up to site %s is not known: its next owner looks", mate)
                return
            if replica.handed is None:
                await self._spool.hand_over_to(mate)
        except StorageError as error:
            log.error("the broker is not given up to site %s yet: %s", mate, error)
        else:
            await self._sites.note_demoted()
