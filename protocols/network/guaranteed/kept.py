"""What the store keeps of one neighbor in one message VPN, whether a link to it runs or not.

- What it wants of guaranteed messages. It is in force from the start on, for the neighbor may be away then.
- The lineages of the link queue, and its queue, which is a queue like others.
- The sequences of the neighbor's link queue that this broker has stored.
- The topics that are held here while a queue moves from or to the neighbor.
"""

import logging
from typing import Final, final

from sluicegate.actors.messages.directory import LocalQueue
from sluicegate.messaging.network.interest import Change, Interest
from sluicegate.messaging.network.sequences import ROW_PREFIX as SEQUENCES_PREFIX
from sluicegate.messaging.network.sequences import Lineages, LinkSequences, place_of_row
from sluicegate.protocols.network.exchange.interest_frames import interest_in, interest_value
from sluicegate.protocols.network.guaranteed.queue_hold import QueueHold, hold_in

log = logging.getLogger("sluicegate.network")

INTEREST_PREFIX: Final = b"link-interest/"
LINEAGE_PREFIX: Final = b"link-lineage/"
HOLD_PREFIX: Final = b"link-hold/"
PREFIXES: Final = (SEQUENCES_PREFIX, INTEREST_PREFIX, LINEAGE_PREFIX, HOLD_PREFIX)

Rows = list[tuple[bytes, bytes | None]]


@final
class KeptLink:
    """What the store keeps of one neighbor. Others change it, and write the rows that it returns."""

    def __init__(self, neighbor: str, row_prefix: bytes) -> None:
        self.neighbor: Final = neighbor
        self.interests: dict[Interest, None] = {}  # for guaranteed messages, as the store has them
        self.lineages = Lineages()
        self.queue: LocalQueue | None = None  # None: it is not made yet
        self.sequences: dict[int, LinkSequences] = {}  # by lineage
        self.holds: dict[str, QueueHold] = {}  # by queue
        self._row_prefix = row_prefix

    def sequences_of(self, lineage: int) -> LinkSequences:
        """Return the sequences of a lineage of the neighbor."""
        found = self.sequences.get(lineage)
        if found is None:
            found = self.sequences[lineage] = self.new_sequences(lineage)
        return found

    def new_sequences(self, lineage: int) -> LinkSequences:
        """Return sequences of a lineage of which nothing is stored. The caller keeps them once something is."""
        return LinkSequences(self.neighbor, lineage, self._row_prefix)

    def interest_rows(self, change: Change) -> Rows:
        """Return the rows that a change of what the neighbor wants writes; none: it is about direct messages only."""
        rows: Rows = [(self._interest_key(each), None) for each in change.removed if each.is_guaranteed]
        rows += [(self._interest_key(each), interest_value(each)) for each in change.added if each.is_guaranteed]
        return rows

    def interests_stored(self, change: Change) -> None:
        """Note that the store has the rows of a change."""
        for interest in change.removed:
            self.interests.pop(interest, None)
        for interest in change.added:
            if interest.is_guaranteed:
                self.interests[interest] = None

    def lineage_row(self) -> tuple[bytes, bytes | None]:
        """Return the row of the lineages."""
        return self._row_prefix + LINEAGE_PREFIX + self.neighbor.encode(), self.lineages.value()

    def hold_row(self, queue: str) -> tuple[bytes, bytes | None]:
        """Return the row of a queue's hold, or its deletion if there is none."""
        hold = self.holds.get(queue)
        # The name of a broker has no "/".
        key = self._row_prefix + HOLD_PREFIX + self.neighbor.encode() + b"/" + queue.encode()
        return key, None if hold is None else hold.value()

    def rows_to_delete(self) -> Rows:
        """Return the deletion of all rows."""
        rows: Rows = [(self._interest_key(each), None) for each in self.interests]
        rows += [(self.hold_row(queue)[0], None) for queue in self.holds]
        for sequences in self.sequences.values():
            rows += sequences.rows_to_delete()
        return [*rows, (self.lineage_row()[0], None)]

    def _interest_key(self, interest: Interest) -> bytes:
        digest = interest.hash().to_bytes(8, "big")
        return self._row_prefix + INTEREST_PREFIX + self.neighbor.encode() + b"/" + digest


def kept_links(rows: dict[bytes, bytes], row_prefix: bytes) -> dict[str, KeptLink]:
    """Return what the rows of a message VPN, without the prefix of its keys, say of each neighbor."""
    kept: dict[str, KeptLink] = {}

    def of(neighbor: str) -> KeptLink:
        if neighbor not in kept:
            kept[neighbor] = KeptLink(neighbor, row_prefix)
        return kept[neighbor]

    for key, value in rows.items():
        try:
            if key.startswith(SEQUENCES_PREFIX):
                neighbor, lineage, place = place_of_row(key)
                of(neighbor).sequences_of(lineage).restore(place, value)
            elif key.startswith(INTEREST_PREFIX):
                neighbor = key[len(INTEREST_PREFIX) : -9].decode()
                of(neighbor).interests[interest_in(value)] = None
            elif key.startswith(HOLD_PREFIX):
                neighbor, _, queue = key[len(HOLD_PREFIX) :].decode().partition("/")
                of(neighbor).holds[queue] = hold_in(queue, value)
            elif key.startswith(LINEAGE_PREFIX):
                neighbor = key[len(LINEAGE_PREFIX) :].decode()
                of(neighbor).lineages = Lineages(value)
        except ValueError as error:
            log.error("cannot read the stored row %r of a link: %s", key[:80], error)
    return kept
