"""What an audit finds, in numbers and examples. How it is found is `comparison`'s matter, how it looks `page`'s."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, final

# What may be wrong, in the order in which people ask.
LOST: Final = "lost"
DUPLICATED: Final = "duplicated"
FOREIGN: Final = "foreign"
OUT_OF_ORDER: Final = "out_of_order"
UNIDENTIFIED: Final = "unidentified"
WRONGS: Final = (LOST, DUPLICATED, FOREIGN, OUT_OF_ORDER, UNIDENTIFIED)


@final
@dataclass(frozen=True, kw_only=True)
class Sample:
    """A message with which something is wrong."""

    wrong: str  # of WRONGS
    identity: str
    key: str | None
    sent_count: int
    arrived_count: int
    sent_at: str  # queue/partition/sequence; empty: never
    arrived_at: str
    received: datetime  # by the gateway's clock, in UTC


@final
@dataclass(frozen=True)
class Moment:
    """The messages that came in during one of the equal pieces of time; foreign ones when they came out."""

    begins: datetime
    sent_count: int
    arrived_count: int  # of them, whenever that was
    wrong_count: int  # identities


@final
@dataclass(frozen=True, kw_only=True)
class AuditResult:
    """What an audit found. Counts are of messages; of what is repeated the surplus counts."""

    sent_count: int
    arrived_count: int
    key_count: int
    wrong_counts: Mapping[str, int]  # by WRONGS
    latency_ms: Mapping[float, int]  # from the gateway having the one to its having the other, by fraction
    latency_counts: Mapping[float, int]  # messages, by the upper bound in ms
    moments: tuple[Moment, ...]
    samples: tuple[Sample, ...]

    @property
    def is_clean(self) -> bool:
        """Whether nothing is wrong."""
        return not any(self.wrong_counts.values())

    def figures(self) -> Mapping[str, object]:
        """Return what a program wants to know, as JSON has it."""
        return {
            "sent": self.sent_count,
            "arrived": self.arrived_count,
            "keys": self.key_count,
            **self.wrong_counts,
            "latency_ms": {f"p{each * 100:g}": value for each, value in self.latency_ms.items()},
            "is_clean": self.is_clean,
        }
