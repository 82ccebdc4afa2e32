"""The queues of links, one for each neighbor and message VPN, and what the store keeps of neighbors beside them.

They outlive links: a link that is deleted leaves them, and an operator has the broker forget the neighbor.
"""

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from sluicegate.actors.messages.data import SessionRows, StoredAnswer, StoreRefused
from sluicegate.actors.messages.directory import (
    LINK,
    CreateQueue,
    DeleteQueue,
    FindQueue,
    LocalQueue,
    UpdateQueue,
    UpdateRefused,
)
from sluicegate.actors.messages.partitions import DescribePartition, PartitionOverview
from sluicegate.actors.publishing.link_publisher import LinkPublisher
from sluicegate.gateway.config.sections.links import Link
from sluicegate.gateway.node.services import NodeServices
from sluicegate.gateway.node.vpn import MessageVpn
from sluicegate.gateway.provisioning.queues import LINK_PREFIX, link_queue
from sluicegate.gateway.views.errors import Refused
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.vpn import row_prefix
from sluicegate.messaging.network.sequences import lineage_of
from sluicegate.protocols.network.guaranteed.kept import KeptLink, kept_links
from sluicegate.protocols.network.link.vpn_link import LinkedVpn
from sluicegate.protocols.network.moves.moves import VpnMoves
from sluicegate.protocols.network.queues.questions import Answerer

MAKE_AGAIN_MS: Final = 5_000  # after a queue could not be made: as a rule the disk or the store has to be mended

log = logging.getLogger("sluicegate.network")


class LinkQueues:
    """The link queues of a node, and its message VPNs as links use them."""

    def __init__(self, services: NodeServices, message_vpns: Mapping[str, MessageVpn], address: Address) -> None:
        """`address` is that of the publishers which links have: nothing is sent there."""
        self._failures: dict[tuple[str, str], str] = {}  # why a queue could not be made, by message VPN and neighbor
        self._again_ms = 0  # when these are tried again
        self._services: Final = services
        self._message_vpns: Final = message_vpns  # the node's: it changes while the node runs
        self._address: Final = address
        self.answerer: Final = Answerer()  # of questions about queues; those who serve operators set it
        self._linked: dict[str, tuple[MessageVpn, LinkedVpn]] = {}
        # By message VPN and neighbor, of message VPNs that no link has used yet.
        self._stored = {
            name: kept_links(services.recovered.stored(name).sessions, row_prefix(name)) for name in message_vpns
        }
        self._making = asyncio.Lock()

    @property
    def is_busy(self) -> bool:
        """Whether queues are being made."""
        return self._making.locked()

    @property
    def has_failed(self) -> bool:
        """Whether a queue could not be made, and it is time to try again."""
        return bool(self._failures) and self._services.clock.now_ms() >= self._again_ms

    def linked(self, vpn: MessageVpn, neighbor: str) -> LinkedVpn | None:
        """Return a message VPN for a link to a neighbor; None: there is no queue yet."""
        linked = self._vpn(vpn)
        kept = linked.kept.get(neighbor)
        return None if kept is None or kept.queue is None else linked

    def is_missing(self, vpn: str, neighbor: str) -> bool:
        """Return whether a message VPN is up, and has no queue for a neighbor, which was not tried yet."""
        if (vpn, neighbor) in self._failures:
            return False
        found = self._message_vpns.get(vpn)
        return found is not None and found.is_up and self.linked(found, neighbor) is None

    async def make(self, links: Mapping[str, Link]) -> None:
        """Make the queues of these links, by neighbor, or change them as configured."""
        async with self._making:
            failures: dict[tuple[str, str], str] = {}
            for name, link in links.items():
                for here in link.vpns:
                    vpn = self._message_vpns.get(here)
                    if vpn is None:
                        continue
                    try:
                        await self._make_queue(vpn, name, link)
                    except (StoreRefused, UpdateRefused) as refusal:
                        failures[here, name] = reason = str(refusal)
                        if self._failures.get((here, name)) != reason:  # else it is in the log
                            log.error("link to %s, message VPN %s: its queue could not be made: %s", name, here, reason)
            self._failures = failures
            self._again_ms = self._services.clock.now_ms() + MAKE_AGAIN_MS

    async def _make_queue(self, vpn: MessageVpn, name: str, link: Link) -> None:
        limit_bytes = min(int(vpn.gate.usage_bytes_max), int(self._services.spool_gate.usage_bytes_max))
        quota_bytes = limit_bytes * link.queue_share_percent // 100
        definition = link_queue(name, quota_bytes, refuses=link.when_full == "refuse")
        request = CreateQueue(definition, LINK, durable=True, must_be_new=False, gives_back=True)
        handle: LocalQueue = await vpn.queues.ask(request)
        if handle.definition != definition:
            await vpn.queues.ask(UpdateQueue(handle.name, lambda _: definition))
        linked = self._vpn(vpn)
        kept = linked.kept.get(name)
        if kept is None:
            kept = linked.kept[name] = KeptLink(name, row_prefix(vpn.name))
        if kept.queue is not None and kept.queue.cell is handle.cell:
            return
        partitions = [each for each in handle.cell.children or () if each.kind == "partition"]
        overview: PartitionOverview = await partitions[0].ask(DescribePartition())
        partition_id = handle.target.partitions[0].partition_id
        lineage = lineage_of(self._services.recovered.incarnation, partition_id)
        if kept.lineages.begin(lineage, overview.next_sequence):
            answer = StoredAnswer(None)
            self._services.spool.inbox.post(SessionRows([kept.lineage_row()], answer, 0))
            await answer.future
        kept.queue = handle

    def expect(self, links: Mapping[str, Link]) -> None:
        """Store guaranteed messages for these neighbors from now on, before their links begin."""
        for name, link in links.items():
            for here in link.vpns:
                vpn = self._message_vpns.get(here)
                if vpn is not None and name in self._vpn(vpn).kept:
                    self._vpn(vpn).expect(name)

    def expect_only(self, links: Mapping[str, Link]) -> None:
        """End that for neighbors that have no link any more, and in message VPNs that their link leaves out."""
        for vpn, linked in self._linked.values():
            for name in linked.kept:
                if name not in links or vpn.name not in links[name].vpns:
                    linked.expect_no_more(name)

    def moves(self, vpn: MessageVpn) -> VpnMoves:
        """Return the moves of queues of a message VPN."""
        return self._vpn(vpn).moves

    def all_moves(self) -> dict[str, VpnMoves]:
        """Return the moves of each message VPN that has links, by its name."""
        return {name: linked.moves for name, (_, linked) in self._linked.items()}

    def overruns(self) -> dict[str, int]:
        """Return how many messages of neighbors queues took beyond their limits, by message VPN."""
        return {name: linked.publisher.overrun_count for name, (_, linked) in self._linked.items()}

    # --- forgetting ---

    def knows(self, neighbor: str, vpns: Collection[str]) -> bool:
        """Return whether anything is kept for a neighbor in one of these message VPNs."""
        return any(neighbor in self._vpn(self._message_vpns[each]).kept for each in vpns)

    async def forget(self, neighbor: str, vpns: Collection[str], *, force: bool) -> None:
        """Delete queue and rows of a neighbor in message VPNs without a link to it.

        Raises Refused if there are messages for it.
        """
        concerned = [self._message_vpns[each] for each in vpns]
        async with self._making:
            found = await self._queues_for(neighbor, concerned)
            count = _waiting_in(found)
            if count and not force:
                raise Refused(f"{count} messages wait for {neighbor}; they are lost with force")
            try:
                for vpn, handle in found:
                    await vpn.queues.ask(DeleteQueue(handle.name))
            except StoreRefused as refusal:
                raise Refused(str(refusal)) from None
            for vpn in concerned:
                linked = self._vpn(vpn)
                kept = linked.kept.get(neighbor)
                if kept is not None:
                    linked.forget(neighbor)
                    self._services.spool.inbox.post(SessionRows(kept.rows_to_delete(), None, 0, until_done=True))

    async def waiting_for(self, neighbor: str) -> int:
        """Return how many messages wait for a neighbor, in all message VPNs."""
        return _waiting_in(await self._queues_for(neighbor, self._message_vpns.values()))

    @staticmethod
    async def _queues_for(neighbor: str, vpns: Iterable[MessageVpn]) -> list[tuple[MessageVpn, LocalQueue]]:
        found: list[tuple[MessageVpn, LocalQueue]] = []
        for vpn in list(vpns):
            handle: LocalQueue | None = await vpn.queues.ask(FindQueue(LINK_PREFIX + neighbor))
            if handle is not None:
                found.append((vpn, handle))
        return found

    def _vpn(self, vpn: MessageVpn) -> LinkedVpn:
        known = self._linked.get(vpn.name)
        if known is None or known[0] is not vpn:
            services = self._services
            siblings = services.environment.sibling_names()
            publisher = LinkPublisher(
                space=vpn.space,
                spool=services.spool.inbox,
                address=self._address,
                rng=services.runtime.rng,
                targets=vpn.ways.targets,
                siblings=siblings,
            )
            linked = LinkedVpn(
                name=vpn.name,
                space=vpn.space,
                router=vpn.router,
                publisher=publisher,
                spool=services.spool.inbox,
                kept=self._stored.pop(vpn.name, {}),
                was_clean=services.recovered.was_clean,
                queues=vpn.queues,
                cursors=vpn.cursors,
                selectors=vpn.selectors,
                credit=services.credit,
                answerer=self.answerer,
                clients=vpn.network_clients,
                sessions=vpn.sessions,
                publishers=vpn.publishers,
                siblings=siblings,
                events=vpn.events,
            )
            known = self._linked[vpn.name] = (vpn, linked)
        return known[1]


def _waiting_in(queues: list[tuple[MessageVpn, LocalQueue]]) -> int:
    return sum([int(handle.target.gate.usage_count) for _, handle in queues])
