"""A retired broker, in its own process: it hands its queues to the brokers that stay, and tells what is left.

The number of brokers was lowered, and this one has data. It serves no ports and takes nothing new. Each queue goes to
the broker that its name chooses among those that stay, by a move as operators begin it. What does not move is told,
with the reason, and keeps the broker running: nothing is lost by waiting.

See also: `supervisor` (stops a broker that has nothing left, and removes its data).
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final, final

from sluicegate.actors.messages.data import StoreRefused
from sluicegate.actors.messages.directory import LINK, NAMED, SESSION, SHARED, ListQueues, LocalQueue, UpdateRefused
from sluicegate.actors.messages.router import ListSelectors, SelectorOverview
from sluicegate.actors.messages.staging import DescribeStaging, StagingOverview
from sluicegate.gateway.machine.channel import ChannelClosed
from sluicegate.gateway.machine.messages import Left
from sluicegate.gateway.node.node import Node
from sluicegate.gateway.node.siblings import Siblings
from sluicegate.gateway.node.vpn import MessageVpn
from sluicegate.messaging.clients.homes import home_of
from sluicegate.messaging.message.vpn import DEFAULT_VPN
from sluicegate.messaging.queues.moves import SESSION_QUEUE_PREFIX, is_of_session
from sluicegate.protocols.amqp.links.subscriptions import SUBSCRIPTION_KIND
from sluicegate.protocols.network.moves.moves import VpnMoves

LOOK_S: Final = 0.5
MOVES_AT_ONCE: Final = 4  # of one message VPN; each has publishers of its topics wait for a moment
SESSIONS_AT_ONCE: Final = 16  # likewise
SETTLED_LOOKS: Final = 10  # what is in the way for so many is told: links that come up are not worth a word
LOOKS_LEFT_ALONE: Final = 4  # of a session that did not move: others have their turn
NAMED_MAX: Final = 20  # obstacles of one kind that are named, for a log line that can be read

log = logging.getLogger("sluicegate.machine")


@final
class Retirement:
    """What a retired broker does beside serving the sessions that it has."""

    def __init__(
        self,
        node: Node,
        siblings: Siblings,
        *,
        tell_left: Callable[[Left], Coroutine[Any, Any, object]],
        tell_released: Callable[[tuple[str, ...]], Coroutine[Any, Any, object]],
    ) -> None:
        """`tell_left` tells the supervisor what is left, and `tell_released` whose sessions are not here any more."""
        self._node = node
        self._siblings = siblings
        self._tell_left = tell_left
        self._tell_released = tell_released
        self._clients = self._clients_here()
        self._told: Left | None = None
        self._looks_count = 0
        # By message VPN: clients whose sessions did not move, why, and until which look they are left alone.
        self._refused: dict[str, dict[str, tuple[str, int]]] = {}
        self._looks: dict[str, int] = {}  # by obstacle: how often it was there, one time after the other

    async def run(self) -> None:
        """Hand over until the broker is stopped."""
        while True:
            try:
                await self._go_on()
            except ChannelClosed:
                return  # the supervisor is gone, and so is this broker in a moment
            except Exception:  # a fault of ours: what is left is served meanwhile
                log.exception("a step of the retirement of broker %s failed", self._siblings.name)
            await asyncio.sleep(LOOK_S)

    async def _go_on(self) -> None:
        clients = self._clients_here()
        if gone := self._clients - clients:
            await self._tell_released(tuple(gone))
        self._clients = clients
        left = await self._look()
        if left != self._told:
            await self._tell_left(left)
            self._told = left

    def _clients_here(self) -> frozenset[str]:
        """Return the identifiers of the clients that have a session here."""
        return frozenset([each for vpn in self._node.vpns.values() for each in vpn.session_clients()])

    async def _look(self) -> Left:
        """Begin what can begin; return what is left."""
        self._looks_count += 1
        count = 0
        found: list[str] = []
        for name, vpn in list(self._node.vpns.items()):
            where = "" if name == DEFAULT_VPN else f" of message VPN {name}"
            vpn_count, obstacles = await self._look_at(vpn)
            count += vpn_count
            found += [f"{each}{where}" for each in obstacles]
        links = self._links_in_use()
        count += len(links)
        found += links
        self._looks = {each: self._looks.get(each, 0) + 1 for each in found}
        obstacles = [each for each, times in self._looks.items() if times >= SETTLED_LOOKS]
        more = [f"{len(obstacles) - NAMED_MAX} more"] if len(obstacles) > NAMED_MAX else []
        return Left(count, (*obstacles[:NAMED_MAX], *more))

    async def _look_at(self, vpn: MessageVpn) -> tuple[int, list[str]]:
        """Begin moves in a message VPN; return how many objects it still has, and what does not go by itself."""
        moves = self._node.links.moves(vpn)
        handles: list[LocalQueue] = await vpn.queues.ask(ListQueues())
        known: list[SelectorOverview] = await vpn.router.ask(ListSelectors())
        with_selectors = {each.queue for each in known}
        obstacles: list[str] = []
        count = len(moves.moved) + len(moves.holds.by_queue)
        for handle in handles:
            waiting = int(handle.target.gate.usage_count)
            if handle.kind == NAMED:
                count += 1
                obstacles += await self._move(vpn, moves, handle, has_selectors=handle.name in with_selectors)
            elif handle.kind == LINK and waiting:
                count += 1
                obstacles.append(f"{waiting} messages wait for broker {handle.name.partition('/')[2]}")
            elif handle.kind in (SESSION, SHARED):
                count += 1
        obstacles += await self._move_sessions(vpn, moves)
        count += vpn.sessions_count
        subscriptions = [each for each in handles if each.kind == SUBSCRIPTION_KIND and each.durable]
        for number, what in (
            (len(subscriptions), "durable subscriptions of AMQP"),
            (vpn.named_publishers_count, "named publishers"),
            (len(vpn.bridges.views()), "bridges that operators created"),
            (len(vpn.rest.views()), "REST delivery points that operators created"),
            (await _staged_count(vpn), "staged transactions"),
        ):
            if number:
                count += number
                obstacles.append(f"{number} {what}")
        return count, obstacles

    async def _move(self, vpn: MessageVpn, moves: VpnMoves, handle: LocalQueue, *, has_selectors: bool) -> list[str]:
        """Begin the move of a queue, if it does not move yet; return what is in the way."""
        name = handle.name
        mover = moves.movers.get(name)
        if mover is not None:
            return [f"queue {name}: {mover.waits_for}"] if mover.waits_for else []
        moving = [each for each in moves.movers if not is_of_session(each)]
        if name in moves.moved or len(moving) >= MOVES_AT_ONCE:
            return []
        if has_selectors:  # they are the broker's, and would stay behind
            return [f"queue {name}: it has durable selectors of consumers; delete them"]
        try:
            await moves.begin(name, self._new_home(name))
        except (UpdateRefused, StoreRefused) as refusal:
            return [f"queue {name}: {refusal}"]
        return []

    async def _move_sessions(self, vpn: MessageVpn, moves: VpnMoves) -> list[str]:
        """Begin the moves of some sessions; return what is in the way."""
        moving = [name for name in moves.movers if is_of_session(name)]
        room = SESSIONS_AT_ONCE - len(moving)
        obstacles = [f"{name}: {each}" for name in moving if (each := moves.movers[name].waits_for)]
        refused = self._refused.setdefault(vpn.name, {})
        for client_id in vpn.session_clients():
            name = SESSION_QUEUE_PREFIX + client_id
            known = refused.get(client_id)
            if known is not None and known[1] > self._looks_count:
                obstacles.append(known[0])
            elif room > 0 and not (name in moves.movers or name in moves.moved):
                room -= 1
                refused.pop(client_id, None)
                home = home_of(client_id, self._siblings.count)
                try:
                    await moves.begin_session(client_id, self._siblings.names[home - 1])
                except (UpdateRefused, StoreRefused) as refusal:
                    refused[client_id] = (str(refusal), self._looks_count + LOOKS_LEFT_ALONE)
                    obstacles.append(str(refusal))
        return obstacles

    def _new_home(self, queue: str) -> str:
        """Return the broker for a queue."""
        return self._siblings.names[home_of(queue, self._siblings.count) - 1]

    def _links_in_use(self) -> list[str]:
        """Return which links to the brokers that stay are down, or have retained messages to exchange."""
        staying = self._siblings.names[: self._siblings.count]
        neighbors = self._node.links.links.neighbors
        links = [(name, link) for name in staying if name in neighbors for link in neighbors[name].vpns]
        return [
            f"{'retained messages for' if link.is_up else 'no link to'} broker {name} in message VPN {link.vpn.name}"
            for name, link in links
            if not (link.is_up and link.retained.is_idle)
        ]


async def _staged_count(vpn: MessageVpn) -> int:
    overview: StagingOverview = await vpn.staging.ask(DescribeStaging())
    return overview.open_count
