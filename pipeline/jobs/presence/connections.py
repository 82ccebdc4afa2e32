"""Derives the times of client connections from the gateway's events.

The topic of an event has its kind and the client (`messaging.observability.events`), its text the client's address.
Node, client and address identify a connection. It ends with its disconnect event. Events may be missing, because the
gateway limits floods of events and may drop direct messages: then a connection ends when its address connects again, or
its node starts. A client is present while it has a connection.
"""

from datetime import datetime
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from sluicegate.messaging.observability.events import CLIENT_CONNECTED, CLIENT_DISCONNECTED, SYSTEM_STARTUP_COMPLETE

_TOPIC: Final = r"^(?:#LOG|\$SYS/LOG)/[A-Z]+/[A-Z]+/([^/]+)/([A-Z_]+)(?:/[^/]+/(.*))?$"
_ADDRESS: Final = r" at (\S+) "
_KINDS: Final = (CLIENT_CONNECTED.name, CLIENT_DISCONNECTED.name, SYSTEM_STARTUP_COMPLETE.name)


def events_in(rows: DataFrame) -> DataFrame:
    """Return the events of connections in a queue that collects `#LOG/>`, without repeats of one kind and time."""
    return (
        rows.select(
            fn.regexp_extract("topic", _TOPIC, 1).alias("node"),
            fn.regexp_extract("topic", _TOPIC, 2).alias("kind"),
            fn.try_url_decode(fn.regexp_extract("topic", _TOPIC, 3)).alias("client"),
            fn.regexp_extract(fn.col("payload").cast("string"), _ADDRESS, 1).alias("address"),
            fn.col("received").alias("at"),
            "partition",
            "sequence",
        )
        .where(fn.col("kind").isin(*_KINDS))
        .dropDuplicates(["node", "kind", "client", "address", "at"])
    )


def connections(events: DataFrame) -> DataFrame:
    """Return `node, client, address, began, ended, is_told` (by a disconnect); `ended` is null while it lasts."""
    starts = fn.col("kind") == SYSTEM_STARTUP_COMPLETE.name
    in_order = Window.partitionBy("node").orderBy("at", "partition", "sequence")
    runs = events.withColumn("run", fn.count_if(starts).over(in_order))  # of the node, since its first start
    next_run = runs.where(starts).select("node", (fn.col("run") - 1).alias("run"), fn.col("at").alias("run_ended"))
    same = Window.partitionBy("node", "run", "client", "address").orderBy("at", "partition", "sequence")
    paired = runs.where(~starts).select(
        "node",
        "run",
        "client",
        "address",
        "kind",
        fn.col("at").alias("began"),
        fn.lead("at").over(same).alias("next_at"),
        fn.lead("kind").over(same).alias("next_kind"),
    )
    return (
        paired.where(fn.col("kind") == CLIENT_CONNECTED.name)
        .join(next_run, ["node", "run"], "left")
        .select(
            "node",
            "client",
            "address",
            "began",
            fn.coalesce("next_at", "run_ended").alias("ended"),
            fn.coalesce(fn.col("next_kind") == CLIENT_DISCONNECTED.name, fn.lit(False)).alias("is_told"),
        )
    )


def presence_of(found: DataFrame) -> DataFrame:
    """Return `client, began, ended`: when each client had at least one connection; `ended` is null while it lasts."""
    by_time = Window.partitionBy("client").orderBy("began")
    before = by_time.rowsBetween(Window.unboundedPreceding, -1)
    forever = fn.lit("9999-12-31").cast("timestamp")
    until = fn.coalesce("ended", forever)
    begins = fn.coalesce(fn.col("began") > fn.max(until).over(before), fn.lit(True))
    return (
        found.withColumns({"until": until, "begins": begins})
        .withColumn("stay", fn.count_if("begins").over(by_time))
        .groupBy("client", "stay")
        .agg(fn.min("began").alias("began"), fn.max("until").alias("last"))
        .select("client", "began", fn.when(fn.col("last") < forever, fn.col("last")).alias("ended"))
    )


def silent_in(stays: DataFrame, before: datetime) -> DataFrame:
    """Return `client, since` of clients that have no connection, and had none since a time."""
    return (
        stays.groupBy("client")
        .agg(fn.max("ended").alias("since"), fn.count_if(fn.col("ended").isNull()).alias("present"))
        .where((fn.col("present") == 0) & (fn.col("since") < fn.lit(before)))
        .select("client", "since")
    )
