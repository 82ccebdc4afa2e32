"""The findings of an audit, in numbers and examples. See also: `job` (the queries), `page` (the report)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, final

# The kinds of findings, in the order of the report.
LOST: Final = "lost"
DUPLICATED: Final = "duplicated"
FOREIGN: Final = "foreign"
OUT_OF_ORDER: Final = "out_of_order"
UNIDENTIFIED: Final = "unidentified"
WRONGS: Final = (LOST, DUPLICATED, FOREIGN, OUT_OF_ORDER, UNIDENTIFIED)


@final
@dataclass(frozen=True, kw_only=True)
class Sample:
    """A message with a finding."""

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
    """The input messages of one of the equal periods of time; foreign messages count when they came out."""

    begins: datetime
    sent_count: int
    arrived_count: int  # of them, whenever that was
    wrong_count: int  # identities


@final
@dataclass(frozen=True, kw_only=True)
class AuditResult:
    """The result of an audit. Counts are of messages; of repetitions the surplus counts."""

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
        """Return the figures for programs, as JSON values."""
        return {
            "sent": self.sent_count,
            "arrived": self.arrived_count,
            "keys": self.key_count,
            **self.wrong_counts,
            "latency_ms": {f"p{each * 100:g}": value for each, value in self.latency_ms.items()},
            "is_clean": self.is_clean,
        }
