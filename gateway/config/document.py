"""A configuration document of any source, with the position of each value, and the error for a wrong one."""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

# --- the error for a wrong configuration: all problems, each with its place and the allowed values ---


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a value: a line of a file, a variable, an argument."""

    source: str
    line: int = 0  # from 1; 0: the source has no lines
    column: int = 0  # from 1

    def __str__(self) -> str:
        return f"{self.source}:{self.line}:{self.column}" if self.line else self.source


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem. `str` gives the line for operators."""

    place: Place
    path: str  # dotted; empty for the source as a whole
    text: str

    def __str__(self) -> str:
        place = str(self.place)
        names_path = not self.path or place.split(" ")[-1] == self.path  # `--set PATH` has it
        return f"{place}: {self.text}" if names_path else f"{place}: {self.path}: {self.text}"


class ConfigError(ValueError):
    """A configuration that a node cannot start with."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        assert problems, "an error without a problem"
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


class ConfigUnreadable(ConfigError):
    """A configuration file that cannot be read."""


def no_such_key(key: str, known: Iterable[str]) -> str:
    """Return the text about a key that does not exist."""
    close = difflib.get_close_matches(key, list(known), n=1)
    return f"there is no such key (did you mean {close[0]!r}?)" if close else "there is no such key"


Path = tuple[str | int, ...]

BYTES_MAX: Final = 1 << 20  # of a file: it is a configuration, not data


@dataclass(slots=True)
class Document:
    """A tree of mappings, lists and scalars, and the place of each key and value by its path."""

    root: dict[str, object] = field(default_factory=dict)
    values: dict[Path, Place] = field(default_factory=dict)
    keys: dict[Path, Place] = field(default_factory=dict)

    def place(self, path: Path, *, of_key: bool = False) -> Place:
        """Return the place of a path, or of the nearest section around it."""
        if of_key and path in self.keys:
            return self.keys[path]
        for length in range(len(path), -1, -1):
            found = self.values.get(path[:length])
            if found is not None:
                return found
        # A rule between settings of other sections: the place of any that was set is better than none.
        for known, found in self.values.items():
            if known[: len(path)] == path:
                return found
        return Place("defaults")
