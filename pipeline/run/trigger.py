"""When a streaming job makes batches."""

from dataclasses import dataclass
from typing import final

from pyspark.sql.streaming.readwriter import DataStreamWriter


@final
@dataclass(frozen=True)
class Trigger:
    """Every so often, until the job is ended; or for what is there now, and then no more."""

    every_ms: int | None  # 0: one batch after the other; None: what is there now

    def set_on(self, writer: DataStreamWriter) -> DataStreamWriter:
        """Return the writer with this trigger."""
        if self.every_ms is None:
            return writer.trigger(availableNow=True)
        return writer.trigger(processingTime=f"{self.every_ms} milliseconds")
