"""The durable selectors of queues whose consumers' selectors decide what enters them: stored in the catalog.

The router owns it and passes the selectors on to the routes. `messaging.selectors.durable` decides what is remembered.
"""

from collections.abc import Mapping
from typing import Final

import orjson

from sluicegate.actors.messages.data import Confirmed, StoredAnswer
from sluicegate.actors.messages.spool import WriteTables
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.routing.destinations import QueueTarget
from sluicegate.messaging.selectors.durable import EVERYTHING, CacheRules, QueueSelectors, Remembered
from sluicegate.messaging.selectors.selector import Selector, Selectors
from sluicegate.storage.interface import Table, TableWrite

SELECTORS_ROW: Final = b"selectors/"


class DurableSelectors:
    """What consumers select, by queue."""

    def __init__(
        self, catalog: Mapping[bytes, bytes], *, selectors: Selectors, spool: Address, row_prefix: bytes
    ) -> None:
        self._selectors = selectors
        self._spool = spool
        self._row_prefix = row_prefix  # before the keys of the VPN's rows
        self._rules = CacheRules()
        self._stored = {
            key[len(SELECTORS_ROW) :].decode(): value for key, value in catalog.items() if key.startswith(SELECTORS_ROW)
        }
        self._queues: dict[str, QueueSelectors] = {}

    def keep_to(self, rules: CacheRules) -> None:
        """Apply other rules from now on; when selectors are no longer remembered, all are forgotten."""
        self._rules = rules
        for each in self._queues.values():
            each.rules = rules
        if rules.durable:
            return
        for name in [*self._stored, *[name for name, known in self._queues.items() if known.remembered]]:
            self._write(_row(name, None))
        self._stored.clear()
        for each in self._queues.values():
            each.remembered.clear()

    def of(self, name: str) -> QueueSelectors:
        """Return the selectors of a queue; loaded from the catalog at first."""
        known = self._queues.get(name)
        if known is None:
            known = self._queues[name] = QueueSelectors(self._rules)
            row = self._stored.pop(name, None)
            for subscriber, (selectors, seen_ms) in ({} if row is None else orjson.loads(row)).items():
                known.remembered[subscriber] = Remembered(selectors, seen_ms)
        return known

    def compiled(self, name: str) -> list[Selector] | None:
        """Return the selectors of which a message for a queue has to match one; None: it takes everything."""
        wanted = self.of(name).wanted()
        return None if wanted is None else [self._selectors.compile_accepted(text) for text in wanted]

    def forget(self, name: str) -> None:
        """Forget a deleted queue."""
        known = self._queues.pop(name, None)
        if self._stored.pop(name, None) is not None or (known is not None and known.remembered):
            self._write(_row(name, None))

    def take(self, target: QueueTarget, selectors: list[tuple[str, list[str], int]], answer: StoredAnswer) -> None:
        """Have these selectors in place of those that are known, as far as any are remembered. Raises SelectorError."""
        for _, texts, _ in selectors:
            for text in texts:
                if text != EVERYTHING:
                    self._selectors.compile(text)
        known = self.of(target.name)
        known.remembered.clear()
        if self._rules.durable:
            known.remembered.update({name: Remembered(texts, seen_ms) for name, texts, seen_ms in selectors})
        self.store(target, answer)

    def store(self, target: QueueTarget, answer: StoredAnswer | None = None) -> None:
        """Write the selectors of a queue, if it is durable, then answer."""
        if target.durable:
            self._write(_row(target.name, self.of(target.name).remembered), answer)
        elif answer is not None:
            answer.post(Confirmed(0))

    def _write(self, row: TableWrite, answer: StoredAnswer | None = None) -> None:
        """Have a row written without fail: its loss would lose messages for its consumer."""
        self._spool.post(WriteTables([row.under(self._row_prefix)], answer, 0, until_done=True))


def _row(name: str, remembered: dict[str, Remembered] | None) -> TableWrite:
    value = None
    if remembered:
        value = orjson.dumps({subscriber: [each.selectors, each.seen_ms] for subscriber, each in remembered.items()})
    return TableWrite(Table.CATALOG, SELECTORS_ROW + name.encode(), value)
