"""Bridges and REST delivery points that operators created, on their way from a retired broker to one that stays.

A broker that is not retired any more finishes what it had begun. What it cannot know, whether the other broker has the
object, the supervisor asks for. Until there is an answer the object does not run at this broker.

See also: `gateway.provisioning.handover` (the steps), `operations.placement` (the supervisor's part).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Final, final

from sluicegate.gateway.machine.channel import ChannelClosed
from sluicegate.gateway.machine.messages import ADOPT
from sluicegate.gateway.machine.operations.placement import BRIDGE, REST
from sluicegate.gateway.node.node import Node
from sluicegate.gateway.node.vpn import MessageVpn
from sluicegate.gateway.provisioning.handover import Handed, Handover
from sluicegate.gateway.views.errors import NotFound, Refused, VpnNotFound

LOOK_S: Final = 0.5
LOOKS_LEFT_ALONE: Final = 20  # of an object that was refused: each try stops it for a moment
SHOWN: Final = {BRIDGE: "bridge", REST: "REST delivery point"}

Place = Callable[[str, str, str], Awaitable[str]]
HandOver = Callable[[str, str, Handed, str], Awaitable[str]]

log = logging.getLogger("sluicegate.machine")


def handovers(vpn: MessageVpn) -> Mapping[str, Handover[Any]]:
    """Return what hands over objects of a message VPN, by their kind."""
    return {BRIDGE: vpn.bridges.handover, REST: vpn.rest.handover}


async def serve(node: Node, verb: str, vpn: str, kind: str, given: Any) -> bool:
    """Carry out HAS, of a name, or ADOPT, of an object; return whether it is here. Raises as `Handover.adopt`."""
    found = node.vpns.get(vpn)
    if verb == ADOPT:
        if found is None:
            raise VpnNotFound(vpn)
        await handovers(found)[kind].adopt(given)
        return True
    return found is not None and await handovers(found)[kind].has(given)


@final
class HandingOver:
    """What one broker hands over."""

    def __init__(self, node: Node, *, is_retired: bool, place: Place, hand_over: HandOver) -> None:
        """`place` and `hand_over` ask the supervisor."""
        self._node = node
        self._is_retired = is_retired
        self._place = place
        self._hand_over = hand_over
        self._reasons: dict[tuple[str, str, str], str] = {}  # why an object does not go; by message VPN, kind and name
        self._left_alone: dict[tuple[str, str, str], int] = {}  # likewise: until which look
        self._looks_count = 0

    async def run(self) -> None:
        """Hand over until the broker is stopped; if it is not retired, until nothing is under way."""
        while self._is_retired or any(each.any_goes() for _, _, each in self._all()):
            try:
                await self.look()
            except ChannelClosed:
                return  # the supervisor is gone, and so is this broker in a moment
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        """Hand over what can go. One after the other: each is counted when the next one gets its place."""
        self._looks_count += 1
        reasons: dict[tuple[str, str, str], str] = {}
        for vpn, kind, objects in list(self._all()):
            for name in objects.names():
                key = (vpn, kind, name)
                if self._left_alone.get(key, 0) > self._looks_count:
                    reasons[key] = self._reasons[key]
                    continue
                try:
                    reason = await self._step(vpn, kind, objects, name)
                except ChannelClosed:
                    raise
                except NotFound:  # an operator has deleted it meanwhile
                    continue
                except Refused as refusal:
                    reason = str(refusal)
                except Exception:  # a fault of ours: the others go on
                    log.exception("%s %r could not be handed over", SHOWN[kind], name)
                    reason = "a fault; the log says more"
                if reason:
                    reasons[key] = reason
        self._reasons = reasons

    async def _step(self, vpn: str, kind: str, objects: Handover[Any], name: str) -> str:
        """Hand one object over; return why it is still here."""
        to = objects.goes_to(name)
        if not to:
            if not self._is_retired:
                return ""
            to = await self._place(vpn, kind, name)
            await objects.begin(name, to)
        reason = await self._hand_over(vpn, kind, objects.packed(name), to)
        if reason:
            await objects.cancel(name)
            self._left_alone[vpn, kind, name] = self._looks_count + LOOKS_LEFT_ALONE
            return reason
        await objects.finish(name)
        log.info("%s %r of message VPN %s is at another broker of this machine now", SHOWN[kind], name, vpn)
        return ""

    def count(self, vpn: str) -> int:
        """Return how many objects of a message VPN are here."""
        return sum(len(objects.names()) for name, _, objects in self._all() if name == vpn)

    def obstacles(self, vpn: str) -> list[str]:
        """Return what did not go at the last look, and why."""
        return [f"{SHOWN[kind]} {name}: {reason}" for (of, kind, name), reason in self._reasons.items() if of == vpn]

    def _all(self) -> Iterator[tuple[str, str, Handover[Any]]]:
        for name, vpn in self._node.vpns.items():
            for kind, objects in handovers(vpn).items():
                yield name, kind, objects
