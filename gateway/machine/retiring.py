"""A retired broker, in its own process: it hands its queues to the brokers that stay, and tells what is left.

The number of brokers was lowered, and this one has data. It serves no ports and takes nothing new. Each queue goes to
the broker that its name chooses among those that stay, by a move as operators begin it. What does not move is told,
with the reason, and keeps the broker running: nothing is lost by waiting.

See also: `supervisor` (stops a broker that has nothing left, and removes its data).
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Coroutine
from functools import partial
from typing import Any, Final, final

from sluicegate.actors.messages.data import StoreRefused
from sluicegate.actors.messages.directory import (
    LINK,
    NAMED,
    SESSION,
    SHARED,
    SUBSCRIPTION,
    ListQueues,
    LocalQueue,
    UpdateRefused,
)
from sluicegate.actors.messages.staging import DescribeStaging, StagingOverview
from sluicegate.gateway.machine.channel import ChannelClosed
from sluicegate.gateway.machine.handing_over import HandingOver
from sluicegate.gateway.machine.messages import Left
from sluicegate.gateway.node.node import Node
from sluicegate.gateway.node.siblings import Released, Siblings
from sluicegate.gateway.node.vpn import MessageVpn
from sluicegate.messaging.clients.homes import home_of, publisher_key
from sluicegate.messaging.message.vpn import DEFAULT_VPN
from sluicegate.messaging.queues.moves import CONTAINER_QUEUE_PREFIX, SESSION_QUEUE_PREFIX, is_of_client, is_of_session
from sluicegate.protocols.amqp.links.subscriptions import container_of
from sluicegate.protocols.amqp.registry import moving_text
from sluicegate.protocols.network.moves.moves import SubscriptionStays, VpnMoves

LOOK_S: Final = 0.5
MOVES_AT_ONCE: Final = 4  # of one message VPN; each has publishers of its topics wait for a moment
SESSIONS_AT_ONCE: Final = 16  # likewise
PUBLISHERS_AT_ONCE: Final = 64  # likewise; each takes what its link queues take to be stored at the others
SETTLED_LOOKS: Final = 10  # what is in the way for so many is told: links that come up are not worth a word
LOOKS_LEFT_ALONE: Final = 4  # of a session that did not move: others have their turn
PUBLISHER: Final = "publisher"  # kind of what moves, beside those of queues
NAMED_MAX: Final = 20  # obstacles of one kind that are named, for a log line that can be read

log = logging.getLogger("sluicegate.machine")


@final
class Refusals:
    """What of one kind did not move in a message VPN, and why. It has its next turn some looks later."""

    def __init__(self) -> None:
        self.reasons: dict[str, str] = {}  # by name
        self._next_looks: dict[str, int] = {}  # likewise: the number of the look that tries again

    def note(self, name: str, reason: str, next_look: int) -> None:
        """Note that it did not move."""
        self.reasons[name] = reason
        self._next_looks[name] = next_look

    def has_turn(self, name: str, look: int) -> bool:
        """Return whether it may be tried."""
        return self._next_looks.get(name, 0) <= look

    def forget(self, name: str) -> None:
        """Forget one that moves."""
        self.reasons.pop(name, None)
        self._next_looks.pop(name, None)

    def keep(self, names: Collection[str]) -> None:
        """Forget all others: they are not here any more."""
        for name in self.reasons.keys() - set(names):
            self.forget(name)


@final
class Retirement:
    """What a retired broker does beside serving the sessions that it has."""

    def __init__(
        self,
        node: Node,
        siblings: Siblings,
        handing_over: HandingOver,
        *,
        tell_left: Callable[[Left], Coroutine[Any, Any, object]],
        tell_released: Callable[[Released], Coroutine[Any, Any, object]],
    ) -> None:
        """`tell_left` tells the supervisor what is left, and `tell_released` what clients do not have here any more."""
        self._node = node
        self._siblings = siblings
        self._handing_over = handing_over  # runs beside it
        self._tell_left = tell_left
        self._tell_released = tell_released
        self._clients = self._clients_here()
        self._publishers = self._publishers_here()
        self._told: Left | None = None
        self._looks_count = 0
        self._refusals: defaultdict[tuple[str, str], Refusals] = defaultdict(Refusals)  # by message VPN and kind
        # By message VPN. Named publishers move in a task, for each waits until what it has published is elsewhere.
        self._moving_publishers: dict[str, asyncio.Task[None]] = {}
        self._containers: frozenset[str] | None = None  # AMQP ones with durable subscriptions; None: not known yet
        self._looks: dict[str, int] = {}  # by obstacle: how often it was there, one time after the other

    async def run(self) -> None:
        """Hand over until the broker is stopped."""
        try:
            while True:
                try:
                    await self._go_on()
                except ChannelClosed:
                    return  # the supervisor is gone, and so is this broker in a moment
                except Exception:  # a fault of ours: what is left is served meanwhile
                    log.exception("a step of the retirement of broker %s failed", self._siblings.name)
                await asyncio.sleep(LOOK_S)
        finally:
            for moving in self._moving_publishers.values():
                moving.cancel()

    async def _go_on(self) -> None:
        clients, publishers = self._clients_here(), self._publishers_here()
        held = self._siblings.container_homes.held_by(self._siblings.number)
        gone = frozenset() if self._containers is None else held - self._containers
        released = Released(self._clients - clients, self._publishers - publishers, gone)
        if not released.is_empty:
            await self._tell_released(released)
        self._clients, self._publishers = clients, publishers
        left = await self._look()
        if left != self._told:
            await self._tell_left(left)
            self._told = left

    def _clients_here(self) -> frozenset[str]:
        """Return the identifiers of the clients that have a session here."""
        return frozenset([each for vpn in self._node.vpns.values() for each in vpn.session_clients()])

    def _publishers_here(self) -> frozenset[str]:
        """Return the identifiers of the named publishers that are here."""
        vpns = self._node.vpns.values()
        return frozenset([publisher_key(vpn.name, name) for vpn in vpns for name in vpn.named_publishers()])

    async def _look(self) -> Left:
        """Begin what can begin; return what is left."""
        self._looks_count += 1
        containers: set[str] = set()
        count = 0
        found: list[str] = []
        for name, vpn in list(self._node.vpns.items()):
            where = "" if name == DEFAULT_VPN else f" of message VPN {name}"
            vpn_count, obstacles = await self._look_at(vpn, containers)
            count += vpn_count
            found += [f"{each}{where}" for each in obstacles]
        self._containers = frozenset(containers)  # of all message VPNs, or of none: one of them has failed
        links = self._links_in_use()
        count += len(links)
        found += links
        self._looks = {each: self._looks.get(each, 0) + 1 for each in found}
        obstacles = [each for each, times in self._looks.items() if times >= SETTLED_LOOKS]
        more = [f"{len(obstacles) - NAMED_MAX} more"] if len(obstacles) > NAMED_MAX else []
        return Left(count, (*obstacles[:NAMED_MAX], *more))

    async def _look_at(self, vpn: MessageVpn, containers: set[str]) -> tuple[int, list[str]]:
        """Begin moves in a message VPN; return how many objects it still has, and what does not go by itself.

        Add the AMQP containers that have durable subscriptions there.
        """
        moves = self._node.links.moves(vpn)
        handles: list[LocalQueue] = await vpn.queues.ask(ListQueues())
        obstacles: list[str] = []
        count = len(moves.moved) + len(moves.holds.by_queue)
        for handle in handles:
            waiting = int(handle.target.gate.usage_count)
            if handle.kind == NAMED:
                count += 1
                obstacles += await self._move(moves, handle)
            elif handle.kind == LINK and waiting:
                count += 1
                obstacles.append(f"{waiting} messages wait for broker {handle.name.partition('/')[2]}")
            elif handle.kind in (SESSION, SHARED):
                count += 1
        obstacles += await self._move_sessions(vpn, moves)
        subscriptions = [each for each in handles if each.kind == SUBSCRIPTION and each.durable]
        containers |= _containers_in([each.name for each in subscriptions])
        obstacles += await self._move_subscriptions(vpn, moves, subscriptions)
        obstacles += self._move_publishers(vpn, moves)
        count += vpn.sessions_count + len(vpn.named_publishers()) + len(subscriptions)
        count += self._handing_over.count(vpn.name)
        obstacles += self._handing_over.obstacles(vpn.name)
        if staged := await _staged_count(vpn):
            count += staged
            obstacles.append(f"{staged} staged transactions")
        return count, obstacles

    async def _move(self, moves: VpnMoves, handle: LocalQueue) -> list[str]:
        """Begin the move of a queue, if it does not move yet; return what is in the way."""
        name = handle.name
        mover = moves.movers.get(name)
        if mover is not None:
            return [f"queue {name}: {mover.wait.reason}"] if mover.wait.reason else []
        moving = [each for each in moves.movers if not is_of_client(each)]
        if name in moves.moved or len(moving) >= MOVES_AT_ONCE:
            return []
        try:
            await moves.begin(name, self._new_home(name))
        except (UpdateRefused, StoreRefused) as refusal:
            return [f"queue {name}: {refusal}"]
        return []

    async def _move_sessions(self, vpn: MessageVpn, moves: VpnMoves) -> list[str]:
        """Begin the moves of some sessions; return what is in the way."""
        moving = [name for name in moves.movers if is_of_session(name)]
        room = SESSIONS_AT_ONCE - len(moving)
        obstacles = [f"{name}: {each}" for name in moving if (each := moves.movers[name].wait.reason)]
        refusals = self._refusals[vpn.name, SESSION]
        clients = vpn.session_clients()
        refusals.keep(clients)
        for client_id in clients:
            name = SESSION_QUEUE_PREFIX + client_id
            is_moving = name in moves.movers or name in moves.moved
            if room > 0 and not is_moving and refusals.has_turn(client_id, self._looks_count):
                room -= 1
                refusals.forget(client_id)
                try:
                    await moves.begin_session(client_id, self._new_home(client_id))
                except (UpdateRefused, StoreRefused) as refusal:
                    refusals.note(client_id, str(refusal), self._looks_count + LOOKS_LEFT_ALONE)
        return [*obstacles, *refusals.reasons.values()]

    async def _move_subscriptions(self, vpn: MessageVpn, moves: VpnMoves, handles: list[LocalQueue]) -> list[str]:
        """Begin the moves of some durable subscriptions of AMQP; return what is in the way.

        Those of a container move together, and meanwhile it is served by nobody: a link that is attached again must
        find its subscription. While one of them cannot move, all stay here and are served.
        """
        moving = [name for name in moves.movers if name.startswith(CONTAINER_QUEUE_PREFIX)]
        obstacles = [f"{_shown(name)}: {each}" for name in moving if (each := moves.movers[name].wait.reason)]
        containers = vpn.amqp_registry.containers
        containers.moving = _containers_in(moving)
        waiting: defaultdict[str, list[str]] = defaultdict(list)  # by container, or by name where it is none's alone
        for handle in handles:
            if not (handle.name in moves.movers or handle.name in moves.moved):
                waiting[container_of(handle.name) or handle.name].append(handle.name)
        refusals = self._refusals[vpn.name, SUBSCRIPTION]
        refusals.keep(waiting)
        room = SESSIONS_AT_ONCE - len(moving)
        for owner, names in waiting.items():
            if room > 0 and refusals.has_turn(owner, self._looks_count):
                room -= len(names)
                send_away = partial(self._send_away, vpn, _containers_in(names))
                next_look = self._looks_count + LOOKS_LEFT_ALONE
                try:
                    await moves.begin_subscriptions(names, self._new_home(owner), before=send_away)
                except SubscriptionStays as stays:
                    refusals.note(owner, f"{_shown(stays.queue)}: {stays}", next_look)
                except (UpdateRefused, StoreRefused) as refusal:
                    refusals.note(owner, f"{_shown(names[0])}: {refusal}", next_look)
                else:
                    refusals.forget(owner)
        containers.staying = dict(refusals.reasons)
        return [*obstacles, *refusals.reasons.values()]

    def _send_away(self, vpn: MessageVpn, containers: frozenset[str]) -> None:
        """Let AMQP containers have no connection any more, until their moves are over."""
        vpn.amqp_registry.containers.moving |= containers
        for each in self._node.amqp.open_connections():
            if each.identity.vpn == vpn.name and each.container_id in containers:
                each.send_away(moving_text(each.container_id))

    def _move_publishers(self, vpn: MessageVpn, moves: VpnMoves) -> list[str]:
        """Begin the moves of named publishers, unless they go on; return what was in the way the last time."""
        refusals = self._refusals[vpn.name, PUBLISHER]
        names = vpn.named_publishers()
        refusals.keep(names)
        ready = [name for name in names if refusals.has_turn(name, self._looks_count)]
        moving = self._moving_publishers.get(vpn.name)
        if ready and (moving is None or moving.done()):
            task = asyncio.create_task(self._move_some(vpn.name, moves, ready[:PUBLISHERS_AT_ONCE]))
            self._moving_publishers[vpn.name] = task
        return list(refusals.reasons.values())

    async def _move_some(self, vpn: str, moves: VpnMoves, names: list[str]) -> None:
        refusals = self._refusals[vpn, PUBLISHER]

        async def move(name: str) -> None:
            try:
                await moves.move_publisher(name, self._new_home(publisher_key(vpn, name)))
            except (UpdateRefused, StoreRefused) as refusal:
                refusals.note(name, str(refusal), self._looks_count + LOOKS_LEFT_ALONE)
            except Exception:  # a fault of ours: it is served here meanwhile
                log.exception("the move of publisher %r failed", name)
                reason = f"publisher {name!r}: a fault; the log says more"
                refusals.note(name, reason, self._looks_count + SETTLED_LOOKS)
            else:
                refusals.forget(name)

        await asyncio.gather(*[move(name) for name in names])

    def _new_home(self, key: str) -> str:
        """Return the broker for a queue, or for what a client has, by its identifier."""
        return self._siblings.names[home_of(key, self._siblings.count) - 1]

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


def _containers_in(queues: list[str]) -> frozenset[str]:
    """Return the containers whose subscriptions have these queues."""
    return frozenset([container for name in queues if (container := container_of(name))])


def _shown(queue: str) -> str:
    return f"durable subscription {queue.removeprefix(CONTAINER_QUEUE_PREFIX)}"


async def _staged_count(vpn: MessageVpn) -> int:
    overview: StagingOverview = await vpn.staging.ask(DescribeStaging())
    return overview.open_count
