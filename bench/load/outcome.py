"""The outcome of one run of one case on one broker: a headline number for ratios, and the other figures."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number."""

    name: str
    value: float
    unit: str


@dataclass(frozen=True, slots=True)
class Faults:
    """What a broker did wrong. Any of them makes a run fail."""

    lost: int = 0
    duplicated: int = 0
    disordered: int = 0


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
