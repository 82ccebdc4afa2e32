"""Reads Spark's checkpoint of a query: its last completed batch, and the offsets of that batch.

The files are Spark's own, and are only read. A batch is complete when `commits/N` exists; its offsets are in
`offsets/N`: a line with a version, one with the query's settings, then a line of JSON for each source.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final
from urllib.parse import unquote, urlparse

from pyspark_sluicegate.reading.offsets import Offset, OffsetError

_LINES_BEFORE_SOURCES: Final = 2


class CheckpointError(ValueError):
    """An unreadable checkpoint."""


@final
@dataclass(frozen=True)
class Progress:
    """The last completed batch."""

    query_id: str
    batch_id: int
    offsets: tuple[Offset, ...]  # of sources that are ours

    @property
    def reference(self) -> str:
        """The name of the batch, as operators see it."""
        return f"{self.query_id}/{self.batch_id}"


def last_progress(checkpoint: str) -> Progress | None:
    """Return the last completed batch; None without one. Raises CheckpointError.

    Reads folders of this host (or mounted there) only: a path, or a `file:` URL.
    """
    folder = _folder(checkpoint)
    try:  # Path.exists says no to each error, from Python 3.14 on
        (folder / "metadata").stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise CheckpointError(f"{checkpoint} cannot be read: {error.strerror}") from None
    query = query_id(checkpoint)
    numbers = [int(each.name) for each in (folder / "commits").glob("[0-9]*") if each.name.isdigit()]
    if not numbers:
        return None
    batch_id = max(numbers)
    lines = _read(folder / "offsets" / str(batch_id), str.splitlines)
    return Progress(query, batch_id, ours_among(lines[_LINES_BEFORE_SOURCES:]))


def query_id(checkpoint: str) -> str:
    """Return the id of the checkpoint's query. Raises CheckpointError, also when no query has started there."""
    return str(_read(_folder(checkpoint) / "metadata", _id_in))


def ours_among(texts: list[str]) -> tuple[Offset, ...]:
    """Return the offsets of this source, from texts with offsets of any source."""
    found: list[Offset] = []
    for text in texts:
        try:
            found.append(Offset.of_json(json.loads(text)))
        except (ValueError, OffsetError):
            continue  # another source's; a query may read several
    return tuple(found)


def _folder(checkpoint: str) -> Path:
    if "://" not in checkpoint and not checkpoint.startswith("file:"):
        return Path(checkpoint)
    url = urlparse(checkpoint)
    if url.scheme != "file":
        raise CheckpointError(f"{checkpoint}: checkpoints are read from folders of this host, not by {url.scheme}:")
    return Path(unquote(url.path))


def _id_in(metadata: str) -> str:
    found = json.loads(metadata)
    if not isinstance(found, dict) or "id" not in found:
        raise ValueError("it names no id")
    return str(found["id"])


def _read(path: Path, parse: Callable[[str], Any]) -> Any:
    try:
        return parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} is not as Spark writes it: {error}") from None
