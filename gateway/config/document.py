"""What a configuration says, whatever it was read from, and where each value of it stood."""

from dataclasses import dataclass, field
from typing import Final

from sluicegate.gateway.config.errors import Place

Path = tuple[str | int, ...]

BYTES_MAX: Final = 1 << 20  # of a file: it is a configuration, not data


@dataclass(slots=True)
class Document:
    """A tree of mappings, lists and scalars, and the place of each key and value by its path."""

    root: dict[str, object] = field(default_factory=dict)
    values: dict[Path, Place] = field(default_factory=dict)
    keys: dict[Path, Place] = field(default_factory=dict)

    def place(self, path: Path, *, of_key: bool = False) -> Place:
        """Return where a path was written, or else where the nearest thing around it was."""
        if of_key and path in self.keys:
            return self.keys[path]
        for length in range(len(path), -1, -1):
            found = self.values.get(path[:length])
            if found is not None:
                return found
        # A rule between settings that come from elsewhere: any of those that were set is a better place than none.
        for known, found in self.values.items():
            if known[: len(path)] == path:
                return found
        return Place("defaults")
