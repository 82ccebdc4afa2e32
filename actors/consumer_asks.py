"""What consumers ask of a partition beside settling: time, remarks, and to hear when something has come to its end."""

from typing import Any, final

from actors.data_messages import Confirmed, Refused, Remark, RenewLock, SettleDurably
from actors.drain_messages import DrainPartition
from actors.futures import LoopFuture
from actors.messages import WriteTables
from messaging.address import Address
from messaging.holding import held_as, remark, renew
from messaging.ledger import Ledger
from messaging.supply import has_more_for

ConsumerAsk = Remark | RenewLock | DrainPartition


@final
class ConsumerAsks:
    """Those of one partition. Whoever waits is answered at the end of a turn, when all it brought is carried out."""

    def __init__(self) -> None:
        self.is_awaited = False  # somebody waits
        self._drains: dict[int, LoopFuture[None]] = {}  # by flow
        self._settlements: list[SettleDurably] = []  # of this turn, whose consumers wait for the store

    def receive(self, ledger: Ledger, message: ConsumerAsk, wall_ms: int) -> Any:
        """Do what is asked, or see to its answer."""
        if isinstance(message, Remark):
            remark(ledger, message.flow_id, message.epoch, message.ranges, message.delivery_count, message.remark)
            return None
        if isinstance(message, RenewLock):
            return renew(ledger, message.flow_id, message.epoch, message.ranges, message.delivery_count, wall_ms)
        return self._drain(message.flow_id)

    def takes(self, ledger: Ledger, message: SettleDurably) -> bool:
        """Note a settlement that is to be applied now; return False, and refuse it, when it is not."""
        flow = ledger.flows.get(message.settle.flow_id)
        if flow is None or flow.epoch != message.settle.epoch:
            message.reply_to.post(Refused(0, "the partition has moved on"))
            return False
        count = message.settle.delivery_count
        if not any(held_as(ledger, flow, first, end, count) for first, end in message.settle.ranges):
            message.reply_to.post(Refused(0, "the flow holds none of it: taken back, for it was not settled in time"))
            return False
        self._settlements.append(message)
        self.is_awaited = True
        return True

    def look(self, ledger: Ledger, spool: Address | None) -> None:
        """Answer whom there is an answer for: the ledger has delivered all it could, and the spool knows what it does.

        None for the spool: nothing here is ever written.
        """
        for message in self._settlements:
            if spool is None:
                message.reply_to.post(Confirmed(0))
            else:  # with nothing to write, this waits for the commit alone
                spool.post(WriteTables([], message.reply_to, 0, until_done=True))
        self._settlements.clear()
        for flow_id, answer in list(self._drains.items()):
            if not has_more_for(ledger, flow_id):
                del self._drains[flow_id]
                answer.set(None)
        self.is_awaited = len(self._drains) > 0

    def end(self) -> None:
        """Answer those who drain: nothing more comes from here."""
        for flow_id in list(self._drains):
            self._drains.pop(flow_id).set(None)

    def _drain(self, flow_id: int) -> LoopFuture[None]:
        """Put a flow in line. One that asks anew is waited for once; what it asked before is answered."""
        earlier = self._drains.pop(flow_id, None)
        if earlier is not None:
            earlier.set(None)
        answer: LoopFuture[None] = LoopFuture()
        self._drains[flow_id] = answer
        self.is_awaited = True
        return answer
