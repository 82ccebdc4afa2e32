"""The position of a stream: for each partition the first sequence that is not read yet.

Spark's checkpoint has it as JSON, so its form has a version. It contains the epoch of the cursor's binding: a later
acknowledgement, in another process, uses the binding that read, and a replaced job cannot move the position of its
successor.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self, final

from sluicegate.protocols.flow.codec.frames.cursor import Position

VERSION: Final = 1
FIRST_SEQUENCE: Final = 1
UNKNOWN: Final = 0  # the id of a partition that nobody has said


class OffsetError(ValueError):
    """An invalid offset, or one of another version, queue, message VPN or incarnation of the spool."""


@final
@dataclass(frozen=True, kw_only=True)
class Offset:
    """A position in all partitions of a queue. Sequences are valid within one incarnation of the spool only."""

    queue: str
    cursor: str
    mode: str  # of the cursor
    incarnation: int
    epoch: int  # of the binding under which it was planned
    next: Mapping[int, int]  # partition: the first sequence behind
    vpn: str = ""  # the message VPN of the queue; empty: an earlier release did not write it down
    ids: Mapping[int, int] = field(default_factory=dict)  # partition: which it was; absent: as of `vpn`

    def next_in(self, number: int, partition_id: int) -> int:
        """Return where a partition continues; one without an entry is newer, and begins at its first sequence.

        The same applies to a partition with the number of an earlier one, which was deleted while the queue had fewer
        partitions. It does not begin at its first kept message: that changes, and a batch that is planned again would
        differ.
        """
        known = self.ids.get(number, UNKNOWN)
        if UNKNOWN not in (known, partition_id) and known != partition_id:
            return FIRST_SEQUENCE
        return self.next.get(number, FIRST_SEQUENCE)

    def places(self, positions: Iterable[Position]) -> dict[int, int]:
        """Return the position in the present partitions. Deleted partitions are complete, and left out."""
        return {each.partition: self.next_in(each.partition, each.partition_id) for each in positions}

    def is_covered_by(self, positions: Iterable[Position]) -> bool:
        """Return whether a cursor at these positions has acknowledged everything before the offset."""
        return all(each.acked >= self.next_in(each.partition, each.partition_id) for each in positions)

    def moved(self, ends: Mapping[int, int], positions: Iterable[Position], epoch: int) -> Self:
        """Return the offset with other sequences, in the partitions of `positions`."""
        ids = {each: partition_id for each, partition_id in ids_of(positions).items() if each in ends}
        return replace(self, next={**self.next, **ends}, ids={**self.ids, **ids}, epoch=epoch)

    def to_json(self) -> dict[str, Any]:
        """Return the form that Spark writes into its checkpoint."""
        return {
            "v": VERSION,
            "vpn": self.vpn,
            "queue": self.queue,
            "cursor": self.cursor,
            "mode": self.mode,
            "incarnation": f"{self.incarnation:016x}",
            "epoch": self.epoch,
            "next": {str(partition): self.next[partition] for partition in sorted(self.next)},
            "ids": {str(partition): self.ids[partition] for partition in sorted(self.ids)},
        }

    @classmethod
    def of_json(cls, found: Any) -> Self:
        """Return the offset of a text from `to_json`. Raises OffsetError."""
        if not isinstance(found, dict) or "v" not in found:
            raise OffsetError(f"{found!r} is no offset of a Sluicegate queue")
        if found["v"] != VERSION:
            raise OffsetError(f"the offset has version {found['v']!r}; this release reads version {VERSION}")
        try:
            return cls(
                vpn=str(found.get("vpn", "")),
                queue=str(found["queue"]),
                cursor=str(found["cursor"]),
                mode=str(found["mode"]),
                incarnation=int(str(found["incarnation"]), 16),
                epoch=int(found["epoch"]),
                next={int(partition): int(sequence) for partition, sequence in found["next"].items()},
                ids={int(partition): int(each) for partition, each in found.get("ids", {}).items()},
            )
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise OffsetError(f"{found!r} is no offset of a Sluicegate queue: {error!r}") from None

    def is_in(self, vpn: str, incarnation: int) -> bool:
        """Return whether it is of this message VPN, if both name one, in this incarnation of the spool.

        All message VPNs of a node have one incarnation, and may have queues and cursors of the same names.
        """
        return self.incarnation == incarnation and (not self.vpn or not vpn or self.vpn == vpn)

    def check_is_of(self, queue: str, vpn: str, incarnation: int) -> None:
        """Raise OffsetError unless the offset is of this queue, in this message VPN and incarnation of the spool."""
        if self.queue != queue:
            raise OffsetError(f"the checkpoint is of the queue {self.queue}, not of {queue}: begin with another one")
        if self.incarnation != incarnation:
            raise OffsetError(
                f"the checkpoint is of the spool {self.incarnation:016x}, the gateway's is {incarnation:016x}: it was"
                f" made anew or restored, and sequences in {queue} mean something else now. Begin with a new checkpoint"
            )
        if not self.is_in(vpn, incarnation):
            raise OffsetError(
                f"the checkpoint is of {queue} in the message VPN {self.vpn}, not in {vpn}: begin with another one"
            )


def acked_places(positions: Iterable[Position]) -> dict[int, int]:
    """Return the sequences before which a cursor has acknowledged everything, by partition."""
    return {each.partition: each.acked for each in positions}


def ids_of(positions: Iterable[Position]) -> dict[int, int]:
    """Return the id of the partition with each number, if the gateway reports ids."""
    return {each.partition: each.partition_id for each in positions if each.partition_id != UNKNOWN}


def named_places(text: str, positions: Iterable[Position]) -> Mapping[int, int]:
    """Return the sequences that a user gives as JSON, `{"0": 1501, "1": 1490}`, in existing partitions.

    Raises OffsetError.
    """
    try:
        found = json.loads(text)
        places = {int(partition): int(sequence) for partition, sequence in found.items()}
    except (ValueError, TypeError, AttributeError):
        raise OffsetError(
            f"{text!r} is no offset; allowed are earliest, latest, or the sequence in each partition as JSON,"
            ' such as {"0": 1501, "1": 1490}'
        ) from None
    if any(partition < 0 or sequence < FIRST_SEQUENCE for partition, sequence in places.items()):
        raise OffsetError(f"{text!r}: partitions count from 0 and sequences from {FIRST_SEQUENCE}")
    there_are = {each.partition for each in positions}
    if not there_are.issuperset(places):
        raise OffsetError(f"{text!r}: the queue has the partitions 0 to {max(there_are)}")
    return places
