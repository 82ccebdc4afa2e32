"""JSON and CSV: payloads that are texts, with columns that the job names."""

import csv
import sys
from typing import ClassVar, final

import orjson

from sluicegate.pipeline.decode.decoder import ArrowType, Decoder, Record, SchemaError, Undecodable
from sluicegate.pipeline.decode.fitting import fit_for, reading_of_cells

csv.field_size_limit(sys.maxsize)  # of all CSV in the process; 128 KiB otherwise, and a payload has a bound already


class _TextDecoder(Decoder):
    """A decoder of texts. Closures cannot be pickled, so each process creates the fitting function."""

    def __init__(self, value_type: ArrowType) -> None:
        """Take the columns. Raises SchemaError for types that texts cannot have."""
        self.value_type = value_type
        self._fit = fit_for(value_type)

    def __reduce__(self) -> tuple[type["_TextDecoder"], tuple[ArrowType]]:
        return type(self), (self.value_type,)


@final
class JsonDecoder(_TextDecoder):
    """A JSON object (RFC 8259) in UTF-8. Members without a column are left out, columns without a member are null."""

    what: ClassVar[str] = "JSON"

    def decode(self, payload: bytes) -> Record:
        """Return the object's record. Raises Undecodable."""
        try:
            found = orjson.loads(payload)
        except orjson.JSONDecodeError as error:
            raise Undecodable(f"{self.what}: {error}") from None
        if not isinstance(found, dict):
            raise Undecodable(f"{self.what}: an object is wanted, not {type(found).__name__}")
        return self._fit(found, "")  # type: ignore[no-any-return]  # a record, for the type is a struct


@final
class CsvDecoder(_TextDecoder):
    """One line of CSV (RFC 4180) in UTF-8, a cell for each column, no header. An empty cell is null."""

    what: ClassVar[str] = "CSV"

    def __init__(self, value_type: ArrowType, delimiter: str) -> None:
        """Take the columns. Raises SchemaError for types that a cell cannot have."""
        super().__init__(value_type)
        self._delimiter = delimiter
        nested = [field.name for field in value_type if field.type.num_fields]
        if nested:
            raise SchemaError(f"{', '.join(nested)}: a cell of CSV holds no array, map or struct")
        self._columns = [(field.name, reading_of_cells(field.type)) for field in value_type]

    def __reduce__(self) -> tuple[type["CsvDecoder"], tuple[ArrowType, str]]:  # type: ignore[override]  # one more
        return type(self), (self.value_type, self._delimiter)

    def decode(self, payload: bytes) -> Record:
        """Return the line's record. Raises Undecodable."""
        try:
            lines = list(csv.reader([payload.decode("utf-8")], delimiter=self._delimiter, strict=True))
        except (UnicodeDecodeError, csv.Error) as error:
            raise Undecodable(f"{self.what}: {error}") from None
        cells = lines[0] if lines else []
        columns = self._columns
        if len(cells) != len(columns):
            raise Undecodable(f"{self.what}: {len(cells)} cells, and {len(columns)} columns")
        found = {name: read(cell, name) if cell else None for cell, (name, read) in zip(cells, columns, strict=True)}
        return self._fit(found, "")  # type: ignore[no-any-return]  # a record, for the type is a struct
