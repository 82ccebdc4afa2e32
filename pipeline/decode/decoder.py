"""The interface of a format: it decodes a payload into a record.

The driver creates a decoder and pickles it to the tasks, so it contains plain values only.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, TypeAlias

import pyarrow as pa

from sluicegate.pipeline.configuration import ConfigError

ArrowType: TypeAlias = Any  # pyarrow ships no types
Record: TypeAlias = dict[str, Any]  # a value for each field, as pyarrow takes them; one that is absent is null


class SchemaError(ConfigError):
    """An invalid schema, or one without a table form; the text names the part."""


class Undecodable(ValueError):
    """A payload that does not fit the schema; the text gives the reason."""


class Decoder(ABC):
    """Decodes payloads of one schema."""

    value_type: ArrowType  # a struct: what records become
    what: ClassVar[str]  # of payloads, for people

    @abstractmethod
    def decode(self, payload: bytes) -> Record:
        """Return a payload's record. Raises Undecodable."""

    def decode_all(self, payloads: list[bytes | None]) -> tuple[Any, list[str | None]]:
        """Return an array with the record of each payload, null where there is none, and for each null the reason."""
        records: list[Record | None] = []
        reasons: list[str | None] = []
        for payload in payloads:
            try:
                records.append(self.decode(payload or b""))
                reasons.append(None)
            except Undecodable as error:
                records.append(None)
                reasons.append(str(error))
        try:
            return pa.array(records, self.value_type), reasons
        except (pa.ArrowException, OverflowError):
            self._set_aside_what_arrow_refuses(records, reasons)
            return pa.array(records, self.value_type), reasons

    def _set_aside_what_arrow_refuses(self, records: list[Record | None], reasons: list[str | None]) -> None:
        """Handle values that a format allows and a column does not, such as a time in the year 20,000."""
        for at, record in enumerate(records):
            try:
                pa.array([record], self.value_type)
            except (pa.ArrowException, OverflowError) as error:
                records[at], reasons[at] = None, f"{self.what}: {error}"
