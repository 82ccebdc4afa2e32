"""The TOML file of a job, checked once; an error names file and key.

`[source]` contains options of the data source, named as in `docs/data/spark.md`. The data source's own code checks it.
"""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final, Literal, Self, TypeVar, final

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails

from pyspark_sluicegate.options import REFERENCES, OptionError, SinkOptions, SourceOptions, is_reference
from sluicegate.pipeline.directories import PLACING_COLUMNS

PAYLOAD: Final = "payload"  # the column that is decoded
RAW: Final = "raw"
JSON: Final = "json"
CSV: Final = "csv"
AVRO: Final = "avro"
PROTOBUF: Final = "protobuf"

# The keys that each format needs: exactly one of each set.
NEEDED: Final[dict[str, tuple[frozenset[str], ...]]] = {
    RAW: (),
    JSON: (frozenset({"columns", "schema_file"}),),
    CSV: (frozenset({"columns", "schema_file"}),),
    AVRO: (frozenset({"schema_file"}),),
    PROTOBUF: (frozenset({"schema_file"}), frozenset({"message"})),
}
OPTIONAL: Final = {CSV: frozenset({"delimiter"})}

PARQUET: Final = "parquet"
DELTA: Final = "delta"
OFFSET_COLUMNS: Final = ("partition", "sequence")  # by which an undecodable message is found again


class ConfigError(ValueError):
    """A job's file that is missing, is no TOML, or has invalid values; one line for each mistake."""


class Section(BaseModel):
    """A table of the file; it may have no unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


@final
class SessionSettings(Section):
    """`[session]`: where Spark runs."""

    master: Annotated[str, Field(min_length=1)] | None = None  # None: where spark-submit says, or this host's cores
    memory: Annotated[str, Field(pattern=r"^[1-9][0-9]*[mg]$")] = "1g"  # of the driver's JVM


class JobFile(Section):
    """The keys of every job's file."""

    session: SessionSettings = SessionSettings()


class QueueJob(JobFile):
    """The keys of every job that reads a queue."""

    source: dict[str, bool | int | str]

    @property
    def source_options(self) -> dict[str, str]:
        """Return the options as Spark takes them."""
        return as_options(self.source)

    @field_validator("source")
    @classmethod
    def _check_source(cls, source: dict[str, bool | int | str]) -> dict[str, bool | int | str]:
        SourceOptions.of(as_options(source))
        return source


class StreamJob(QueueJob):
    """The keys of every job that reads a queue as a stream."""

    checkpoint: Annotated[str, Field(min_length=1)]
    admin_url: Annotated[str, Field(pattern="^https?://")] | None = (
        None  # of the gateway, which receives the figures of batches
    )
    admin_username: Annotated[str, Field(validation_alias=AliasChoices("admin_username", "admin_user"))] = (
        ""  # an account there; empty: there are none, or a token identifies the user. The alias is its former name
    )
    admin_credential_ref: str = ""  # env:NAME or file:PATH, of its password, or of a token

    @model_validator(mode="after")
    def _check_admin(self) -> Self:
        if self.admin_credential_ref and not is_reference(self.admin_credential_ref):
            raise ValueError(f"admin_credential_ref is {self.admin_credential_ref!r}; allowed are {REFERENCES}")
        if self.admin_username and not self.admin_credential_ref:
            raise ValueError("admin_username is there, and no admin_credential_ref says where its password is")
        if self.admin_credential_ref and self.admin_url is None:
            raise ValueError("admin_credential_ref is there, and no admin_url says what it is for")
        return self


class SchemaTable(Section):
    """The schema of payloads in a job's file. `raw`: they are not decoded."""

    format: Literal["raw", "json", "csv", "avro", "protobuf"] = RAW
    columns: Annotated[str, Field(min_length=1)] | None = None  # json, csv: as Spark writes schemas
    schema_file: Path | None = None  # json, csv: the same in a file; avro: .avsc; protobuf: a descriptor set
    message: Annotated[str, Field(min_length=1)] | None = None  # protobuf: its full name
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] = ","  # csv

    def needed(self) -> tuple[frozenset[str], ...]:
        """Return the keys that the format needs: exactly one of each set."""
        return NEEDED[self.format]

    @model_validator(mode="after")
    def _check_keys_of_the_format(self) -> Self:
        given = self.model_fields_set - {"format"}
        for choice in self.needed():
            if len(choice & given) != 1:
                wanted = " or ".join(sorted(choice))
                raise ValueError(f"the format {self.format} needs {wanted}{', and one of them' * (len(choice) > 1)}")
        foreign = given - frozenset().union(*self.needed()) - OPTIONAL.get(self.format, frozenset())
        if foreign:
            raise ValueError(f"the format {self.format} has no {', '.join(sorted(foreign))}")
        return self


@final
class DecodeTable(SchemaTable):
    """`[decode]` of a job that keeps rows: no payload is dropped."""

    undecodable: Annotated[str, Field(min_length=1)] | None = (
        None  # the destination of payloads that do not fit the schema
    )

    def needed(self) -> tuple[frozenset[str], ...]:
        """Return the keys that the format needs, and the destination of undecodable payloads."""
        return super().needed() if self.format == RAW else (*super().needed(), frozenset({"undecodable"}))


class ArchiveTable(Section):
    """An archive: the place and format of its rows. Every job that writes or reads archives uses this table."""

    path: Annotated[str, Field(min_length=1)]
    format: Literal["parquet", "delta"] = PARQUET

    @model_validator(mode="after")
    def _check_place(self) -> Self:
        if self.format == DELTA and not self.path.startswith("/"):
            raise ValueError(
                f"path is {self.path!r}; a Delta table is a folder that all see, named by its absolute path"
            )
        return self


@final
class ArchiveJob(StreamJob):
    """The file of `archive`."""

    archive: ArchiveTable
    decode: DecodeTable = DecodeTable()

    @model_validator(mode="after")
    def _check_columns(self) -> Self:
        columns = SourceOptions.of(self.source_options).columns
        wanted = PLACING_COLUMNS if self.decode.format == RAW else (*PLACING_COLUMNS, *OFFSET_COLUMNS, PAYLOAD)
        missing = [each for each in wanted if columns and each not in columns]
        if missing:
            raise ValueError(f"source.columns lacks {', '.join(missing)}, which the archive needs")
        return self

    @model_validator(mode="after")
    def _check_undecodable_is_apart(self) -> Self:
        """Refuse equal paths: both have directories of the same names, and one would replace the other."""
        aside = self.decode.undecodable
        if aside is not None and Path(aside) == Path(self.archive.path):
            raise ValueError(f"decode.undecodable is {aside!r}, where the archive is; it needs a place of its own")
        return self


File = TypeVar("File", bound=JobFile)


def load(path: Path, kind: type[File], *, master: str | None = None, checkpoint: str | None = None) -> File:
    """Return a file's configuration, with the command line's overrides. Raises ConfigError with every mistake."""
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
            ": ".join(
                part for part in (str(path), ".".join(str(each) for each in mistake["loc"]), _said(mistake)) if part
            )
            for mistake in error.errors()
        ]
        raise ConfigError("\n".join(lines)) from None


def _said(mistake: ErrorDetails) -> str:
    return mistake["msg"].removeprefix("Value error, ")


def as_options(table: Mapping[str, bool | int | str]) -> dict[str, str]:
    """Return a TOML table as options of Spark, which are texts."""
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in table.items()}


def check_target(target: Mapping[str, bool | int | str], columns: Sequence[str]) -> None:
    """Check the options of the sink, for a job that names its transactions itself. Raises OptionError."""
    if any(name.lower() == "txn" for name in target):
        raise OptionError("txn is made by the job, and is not to be given")
    SinkOptions.of(as_options(target), columns)
