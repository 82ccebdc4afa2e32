"""What is stored of a broker, told by its commits: messages that are not settled, partitions, rows."""

from copy import copy
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from sluicegate.storage.interface import Table
from support.storage.replicas import Content

TABLE: Final = Table.RETAINED


class Message(NamedTuple):
    """Where a message is."""

    partition_id: int
    sequence: int


@dataclass
class Change:
    """What one commit changes. The parts take effect in this order."""

    number: int  # of all commits of a run: names it
    partitions: dict[int, int] = field(default_factory=dict)  # by number, up to where their sequences are reserved
    purges: list[int] = field(default_factory=list)
    published: dict[Message, bytes] = field(default_factory=dict)
    settled: list[Message] = field(default_factory=list)
    rows: dict[bytes, bytes | None] = field(default_factory=dict)

    def __str__(self) -> str:
        what = f"{len(self.published)} messages, {len(self.settled)} settlements, {len(self.rows)} rows"
        return f"commit {self.number} ({what}, purges {self.purges})"


@dataclass
class State:
    """What a replica has to have."""

    partitions: dict[int, int] = field(default_factory=dict)
    messages: dict[Message, bytes] = field(default_factory=dict)
    rows: dict[bytes, bytes] = field(default_factory=dict)

    def copy(self) -> "State":
        """Return another one, with the same in it."""
        return State(copy(self.partitions), copy(self.messages), copy(self.rows))

    def apply(self, change: Change) -> None:
        """Take a commit that is stored."""
        self.partitions |= change.partitions
        for partition_id in change.purges:
            self.partitions.pop(partition_id, None)
            for message in [each for each in self.messages if each.partition_id == partition_id]:
                del self.messages[message]
        self.messages |= change.published
        for message in change.settled:
            self.messages.pop(message, None)
        for key, value in change.rows.items():
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = value


def state_of(content: Content) -> State:
    """Return what a store has."""
    return State(
        {partition_id: reserved for partition_id, (_, _, reserved) in content.cursors.items()},
        {Message(*place): payload for place, payload in content.messages.items()},
        {bytes(key): bytes(value) for key, value in content.rows[TABLE].items()},
    )


def difference(found: State, wanted: State) -> str:
    """Return in what two states differ; empty when they do not."""
    said = []
    for name in ("partitions", "messages", "rows"):
        has, should = getattr(found, name), getattr(wanted, name)
        for what, those in (
            ("lacks", {key: should[key] for key in should if key not in has}),
            ("has", {key: has[key] for key in has if key not in should}),
            ("has another", {key: has[key] for key in has if key in should and has[key] != should[key]}),
        ):
            if those:
                key, value = next(iter(those.items()))
                shown = value[:40] if isinstance(value, bytes) else value
                said.append(f"{what} {len(those)} of its {name}, as {key} with {shown!r}")
    return "; ".join(said)
