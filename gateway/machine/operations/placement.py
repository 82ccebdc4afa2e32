"""What the supervisor does for a retired broker that hands over a bridge or a REST delivery point."""

from typing import Final

from sluicegate.gateway.machine.messages import ADOPT, HAS
from sluicegate.gateway.machine.operations.rules import AskedBroker, BrokerAway, Rules, least_used
from sluicegate.gateway.provisioning.handover import Handed
from sluicegate.gateway.views.errors import Refused

# The kinds of objects that a retired broker hands over.
BRIDGE: Final = "bridge"
REST: Final = "rest_delivery_point"


class Placement(Rules):
    """Finds a broker for objects of one message VPN, and has it get them."""

    async def place(self, retired: AskedBroker, kind: str, name: str) -> str:
        """Return the broker that is to get an object of a retired one: the one that has the fewest. Raises Refused."""
        self._every()
        answers = [each for each in await self._all(f"list_{kind}s") if each[0] is not retired]
        for broker, views in answers:
            if any(each.name == name for each in views):
                raise Refused(f"broker {broker.name} has another one of this name: delete one of them")
        return least_used(answers).name

    async def hand_over(self, giver: AskedBroker, kind: str, handed: Handed, to: str) -> str:
        """Have a broker get an object of another one, unless one has it; return why none has it, or nothing.

        Brokers that are retired are asked first whether they have it: one of them could hand it over meanwhile, and
        deletes it after that. Whatever this raises, it is not known whether another one has it. Raises Refused.
        """
        others = sorted([each for each in self._every() if each is not giver], key=lambda each: not each.is_retired)
        for broker in others:
            if await self._asked(broker, HAS, self._vpn, kind, handed.name):
                return ""
        target = next((each for each in others if each.name == to and not each.is_retired), None)
        if target is None or not giver.is_retired:
            return f"broker {to} is not to have it any more"
        try:
            await self._asked(target, ADOPT, self._vpn, kind, handed)
        except BrokerAway:
            raise
        except Exception as error:  # it has answered that it does not take it
            return str(error) or type(error).__name__
        return ""
