"""The job `profile`: the formats and sizes of each topic's payloads, and the columns of JSON payloads.

It reads without removing messages. With a decode stage in its file it also counts the payloads that do not fit that
schema: the drift since the schema was written.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Final, final

from pydantic import Field
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    DoubleType,
    NullType,
    StructField,
    StructType,
    VariantType,
)

from sluicegate.pipeline.configuration import JSON, QueueJob, SchemaTable, Section
from sluicegate.pipeline.decode.decoder import Decoder
from sluicegate.pipeline.decode.stage import DECODE_ERROR, decoded, decoder_for
from sluicegate.pipeline.run.job import alike

TOPICS_MAX: Final = 200  # the most frequent topics are listed; the others are counted
REASONS_SHOWN: Final = 3
FRACTIONS: Final = (0.5, 0.99)  # of sizes

TEXT: Final = "text"
BINARY: Final = "binary"
_OBJECT: Final = "OBJECT<"  # how Spark writes that in a variant's schema


@final
class ProfileTable(Section):
    """`[profile]`: the grouping of topics."""

    levels: Annotated[int, Field(ge=1, le=128)] = 3  # of topics that begin with the same so many levels


@final
class ProfileJob(QueueJob):
    """The file of `profile`."""

    profile: ProfileTable = ProfileTable()
    decode: SchemaTable = SchemaTable()


@final
@dataclass(frozen=True, kw_only=True)
class TopicProfile:
    """The messages whose topics have the same beginning."""

    topic: str | None  # None: sent to the queue itself
    count: int
    payload_bytes: int
    size_bytes: Mapping[str, int]  # by fraction, and the largest
    formats: Mapping[str, int]  # messages
    columns: str | None  # what JSON objects would make, as `decode.columns` has it; None: there are none
    undecodable_count: int
    reasons: Sequence[str]  # the most frequent ones


@final
@dataclass(frozen=True, kw_only=True)
class ProfileResult:
    """The profile of a queue's payloads."""

    queue: str
    topics: Sequence[TopicProfile]  # the most frequent first
    others_count: int  # messages of unlisted topics
    undecodable_count: int  # of all topics

    @property
    def is_clean(self) -> bool:
        """Whether all payloads fit the schema, if one is given."""
        return self.undecodable_count == 0

    def figures(self) -> Mapping[str, object]:
        """Return the results, as JSON values."""
        return asdict(self)


def profile(spark: SparkSession, config: ProfileJob) -> ProfileResult:
    """Read the queue's current messages. Raises SchemaError, and the errors of Spark and the data source."""
    rows = spark.read.format("sluicegate").options(**config.source_options).load()
    return findings(
        rows, config.source_options["queue"], levels=config.profile.levels, decoder=decoder_for(config.decode)
    )


def findings(rows: DataFrame, queue: str, *, levels: int, decoder: Decoder | None) -> ProfileResult:
    """Return the profile of a queue's rows."""
    rows = rows.withColumn(DECODE_ERROR, fn.lit(None).cast("string")) if decoder is None else decoded(rows, decoder)
    found = _by_topic(rows, levels).persist()
    try:
        sums = [fn.coalesce(fn.sum(each), fn.lit(0)).alias(each) for each in ("count", "undecodable_count")]
        total: Any = found.agg(*sums).first()
        shown = [_profile_of(row) for row in found.orderBy(fn.desc("count"), "topic").limit(TOPICS_MAX).collect()]
    finally:
        found.unpersist()
    return ProfileResult(
        queue=queue,
        topics=shown,
        others_count=total["count"] - sum(each.count for each in shown),
        undecodable_count=total.undecodable_count,
    )


def _by_topic(rows: DataFrame, levels: int) -> DataFrame:
    text = fn.when(fn.is_valid_utf8("payload"), fn.col("payload").cast("string"))
    size = fn.length("payload")
    looked_at = rows.select(
        fn.substring_index("topic", "/", levels).alias("topic"),
        size.alias("size"),
        text.isNotNull().alias("is_text"),
        fn.try_parse_json(text).alias("value"),
        alike(fn.col(DECODE_ERROR)).alias("reason"),
    )
    is_json = fn.col("value").isNotNull()
    return looked_at.groupBy("topic").agg(
        fn.count("*").alias("count"),
        fn.sum("size").alias("payload_bytes"),
        fn.percentile_approx("size", [*FRACTIONS, 1.0]).alias("sizes"),
        fn.count_if(is_json).alias(JSON),
        fn.count_if(~is_json & fn.col("is_text")).alias(TEXT),
        fn.count_if(~fn.col("is_text")).alias(BINARY),
        fn.schema_of_variant_agg("value").alias("schema"),
        fn.count("reason").alias("undecodable_count"),
        fn.expr(f"approx_top_k(reason, {REASONS_SHOWN})").alias("reasons"),
    )


def _profile_of(row: Row) -> TopicProfile:
    found: Any = row
    return TopicProfile(
        topic=found.topic,
        count=found["count"],
        payload_bytes=found.payload_bytes,
        size_bytes=dict(zip((*(f"p{each * 100:g}" for each in FRACTIONS), "max"), found.sizes, strict=True)),
        formats={name: found[name] for name in (JSON, TEXT, BINARY) if found[name]},
        columns=columns_in(found.schema),
        undecodable_count=found.undecodable_count,
        reasons=[each.item for each in found.reasons if each.item is not None],
    )


def columns_in(schema: str | None) -> str | None:
    """Return the columns of objects with a schema of Spark's variants, as `decode.columns` has them.

    Decimals are what numbers with a fraction are taken for, and become double. A member that is always null, or of
    several types, is left out: it has no type that a column could have.
    """
    if schema is None or not schema.startswith(_OBJECT):
        return None
    found = _of_column(DataType.fromDDL(schema.replace(_OBJECT, "STRUCT<")))
    return None if found is None else ", ".join(f"{_quoted(each.name)} {_written(each.dataType)}" for each in found)


def _written(kind: DataType) -> str:
    """Return a type as text that Spark parses, whatever the names of its members."""
    if isinstance(kind, StructType):
        return f"struct<{','.join(f'{_quoted(each.name)}:{_written(each.dataType)}' for each in kind)}>"
    return f"array<{_written(kind.elementType)}>" if isinstance(kind, ArrayType) else kind.simpleString()


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _of_column(found: DataType) -> Any:
    """Return the type of a column for values of a variant, None where there is none."""
    if isinstance(found, StructType):
        fields = [(each.name, _of_column(each.dataType)) for each in found.fields]
        kept = [StructField(name, kind) for name, kind in fields if kind is not None]
        return StructType(kept) if kept else None
    if isinstance(found, ArrayType):
        kind = _of_column(found.elementType)
        return None if kind is None else ArrayType(kind)
    if isinstance(found, DecimalType):
        return DoubleType()
    return None if isinstance(found, NullType | VariantType) else found
