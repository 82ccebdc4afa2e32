"""What a job's TOML file says, checked once; a mistake is named by file and key.

`[source]` holds options of the data source under the names that `docs/spark.md` gives them, and is checked by the same
code.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, TypeVar, final

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from pyspark_sluicegate.options import SourceOptions

PLACING_COLUMNS = ("queue", "received")  # an archive's directories are made of them


class ConfigError(ValueError):
    """A job's file that is missing, is no TOML, or says what makes no sense; one line for each mistake."""


class Section(BaseModel):
    """A table of the file: nothing in it may be unknown."""

    model_config = ConfigDict(frozen=True, extra="forbid")


@final
class SessionSettings(Section):
    """`[session]`: where Spark runs."""

    master: Annotated[str, Field(min_length=1)] | None = None  # None: where spark-submit says, or this host's cores
    memory: Annotated[str, Field(pattern=r"^[1-9][0-9]*[mg]$")] = "1g"  # of the driver's JVM


class JobFile(Section):
    """What every job's file may have."""

    session: SessionSettings = SessionSettings()


class StreamJob(JobFile):
    """What every job has that reads a queue as a stream."""

    source: dict[str, bool | int | str]
    checkpoint: Annotated[str, Field(min_length=1)]

    @property
    def source_options(self) -> dict[str, str]:
        """Return the options as Spark takes them."""
        return as_options(self.source)

    @field_validator("source")
    @classmethod
    def _check_source(cls, source: dict[str, bool | int | str]) -> dict[str, bool | int | str]:
        SourceOptions.of(as_options(source))
        return source


@final
class ArchiveTable(Section):
    """`[archive]`: where the rows go."""

    path: Annotated[str, Field(min_length=1)]


@final
class ArchiveJob(StreamJob):
    """The file of `archive`."""

    archive: ArchiveTable

    @field_validator("source")
    @classmethod
    def _check_columns(cls, source: dict[str, bool | int | str]) -> dict[str, bool | int | str]:
        columns = SourceOptions.of(as_options(source)).columns
        missing = [each for each in PLACING_COLUMNS if columns and each not in columns]
        if missing:
            raise ValueError(f"columns lacks {', '.join(missing)}, of which the archive's directories are made")
        return source


File = TypeVar("File", bound=JobFile)


def load(path: Path, kind: type[File], *, master: str | None = None, checkpoint: str | None = None) -> File:
    """Return what a file says, but for what the command line does. Raises ConfigError, which names every mistake."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except ValueError as error:  # no TOML, or no UTF-8
        raise ConfigError(f"{path}: {error}") from None
    if checkpoint is not None:
        found["checkpoint"] = checkpoint
    if master is not None:
        session = found.get("session", {})
        found["session"] = {**session, "master": master} if isinstance(session, dict) else session
    try:
        return kind.model_validate(found)
    except ValidationError as error:
        lines = [
            f"{path}: {'.'.join(str(each) for each in mistake['loc'])}: {mistake['msg'].removeprefix('Value error, ')}"
            for mistake in error.errors()
        ]
        raise ConfigError("\n".join(lines)) from None


def as_options(table: Mapping[str, bool | int | str]) -> dict[str, str]:
    """Return a table of TOML as Spark takes options: texts."""
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in table.items()}
