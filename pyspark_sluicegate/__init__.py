"""The data source for Spark: `spark.read.format("sluicegate")`, and its stream and sinks.

Spark finds it by the name of this package, and takes `DefaultSource`; so importing it is light: no connection, no
Arrow, no session. `source` leads to everything. Of the gateway only the client library and the codec may be imported.
`docs/data/spark.md` is for users.
"""

from pyspark_sluicegate.source import SluicegateSource as DefaultSource

__all__ = ["DefaultSource"]
