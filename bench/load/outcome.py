"""The results of a run: the report of its load, and the outcome of one case on one broker.

An outcome has a headline number for ratios, and the other figures.
"""

from array import array
from dataclasses import dataclass, field, fields


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number."""

    name: str
    value: float
    unit: str


@dataclass(frozen=True, slots=True)
class Faults:
    """The faults of a broker. Any of them makes a run fail."""

    lost: int = 0
    duplicated: int = 0
    disordered: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadReport:
    """The result of a load, after each message in flight has arrived or is given up."""

    published: int = 0
    confirmed: int = 0  # QoS 1 and 2 only
    expected: int = 0  # deliveries
    received: int = 0  # deliveries, repeated ones not counted
    duplicated: int = 0
    disordered: int = 0  # came behind a later one of their stream
    read_singly: int = 0
    latencies_s: "array[float]" = field(
        default_factory=lambda: array("d")
    )  # of a load with a rate: from when it was due

    @property
    def faults(self) -> Faults:
        """The faults of the broker."""
        return Faults(self.expected - self.received, self.duplicated, self.disordered)

    def plus(self, other: "LoadReport") -> "LoadReport":
        """Return the sum of two workers' reports."""
        return LoadReport(**{each.name: getattr(self, each.name) + getattr(other, each.name) for each in fields(self)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One run. The ratio of two brokers is that of their headlines, oriented so that above 1 is better."""

    headline: Figure
    higher_is_better: bool
    figures: tuple[Figure, ...] = ()
    faults: Faults = Faults()

    def ratio_to(self, other: "Outcome") -> float:
        """Return how many times better this run is than `other`; 0 when either has nothing to compare."""
        ours, theirs = self.headline.value, other.headline.value
        if ours <= 0 or theirs <= 0:
            return 0.0
        return ours / theirs if self.higher_is_better else theirs / ours
