"""What was wrong with a configuration: every problem at once, each with its place and what would have been right."""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value was written: a line of a file, a variable, an argument."""

    source: str
    line: int = 0  # from 1; 0: the source has no lines
    column: int = 0  # from 1

    def __str__(self) -> str:
        return f"{self.source}:{self.line}:{self.column}" if self.line else self.source


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong. `str` gives the line an operator reads."""

    place: Place
    path: str  # dotted; empty for the source as a whole
    text: str

    def __str__(self) -> str:
        return f"{self.place}: {self.path}: {self.text}" if self.path else f"{self.place}: {self.text}"


class ConfigError(ValueError):
    """A configuration that no node can be started with."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        assert problems, "an error without a problem"
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


def no_such_key(key: str, known: Iterable[str]) -> str:
    """Return what is wrong with a key that does not exist."""
    close = difflib.get_close_matches(key, list(known), n=1)
    return f"there is no such key (did you mean {close[0]!r}?)" if close else "there is no such key"
