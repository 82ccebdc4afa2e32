"""Catalog rows for callers that are not actors: what operators create while the node runs.

Queues, templates and durable selectors are written by the actors that own them.
"""

from dataclasses import dataclass
from typing import Any

from sluicegate.actors.messages.data import Confirmed, PublishFailed, StoreRefused
from sluicegate.actors.messages.spool import WriteTables
from sluicegate.actors.runtime.actor import LoopActor
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.messaging.message.address import Address
from sluicegate.storage.interface import TableWrite


@dataclass(slots=True)
class WriteRow:
    """Write a row, or delete it. Answered when that is on disk, or with StoreRefused."""

    row: TableWrite


@dataclass(slots=True)
class WriteWholeRows:
    """Write rows under their full keys, of any message VPN, or delete them. Answered as WriteRow.

    With `uses_reserve` a full store takes them. With `until_done` it does so as well, and a failed one when it works
    again, although the answer is StoreRefused. Without rows, the answer says that everything the spool had before is on
    disk.
    """

    rows: list[TableWrite]
    until_done: bool = False
    uses_reserve: bool = False


class CatalogActor(LoopActor):
    """Passes rows of one message VPN to the spool, and the spool's answers to the askers."""

    def __init__(self, cell: ActorCell, *, spool: Address, row_prefix: bytes) -> None:
        super().__init__(cell)
        self._spool = spool
        self._row_prefix = row_prefix
        self._written: dict[int, LoopFuture[None]] = {}  # by the token of the confirmation
        self._tokens = 0

    def on_receive(self, message: Any) -> Any:
        """Handle rows, or the spool's answer."""
        if isinstance(message, WriteRow):
            return self._write(WriteTables([message.row.under(self._row_prefix)], self.cell.inbox, 0))
        if isinstance(message, WriteWholeRows):
            return self._write(
                WriteTables(
                    message.rows,
                    self.cell.inbox,
                    0,
                    until_done=message.until_done,
                    uses_reserve=message.uses_reserve,
                )
            )
        decided = self._written.pop(message.token)
        if isinstance(message, Confirmed):
            decided.set()
        else:
            assert isinstance(message, PublishFailed)
            decided.set_exception((StoreRefused, StoreRefused(message.reason), None))
        return None

    def _write(self, request: WriteTables) -> LoopFuture[None]:
        self._tokens += 1
        written = self._written[self._tokens] = LoopFuture[None]()
        request.token = self._tokens
        self._spool.post(request)
        return written
