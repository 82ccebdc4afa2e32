"""References between JSON Schemas: to files of the folder, by their path or their `$id`, and never to the network."""

from pathlib import Path
from typing import Any, Final, final

import orjson

from sluicegate.protocols.schemas.errors import SchemaUnusable

BASE: Final = "schemas:///"  # of relative references in schemas without an $id


@final
class FolderReferences:
    """What references of JSON Schemas lead to: files of one folder, each by its `$id` read at most once.

    The rules of one read of a configuration share it: else the files of the folder would be read for each rule.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._by_id: dict[str, Any] | None = None  # None: no reference has needed one

    def read(self, uri: str) -> Any:
        """Return the schema at a URI. Raises SchemaUnusable."""
        if uri.startswith(BASE):
            file = (self._folder / uri[len(BASE) :]).resolve()
            if not file.is_relative_to(self._folder):
                raise SchemaUnusable(f"{uri!r} leads out of the folder of schemas")
            try:
                return parsed_schema(file.read_bytes(), file.name)
            except OSError as problem:
                raise SchemaUnusable(f"{str(file)!r}: {problem.strerror}") from None
        if self._by_id is None:
            self._by_id = {}
            for file in sorted(self._folder.glob("*.json")):
                self._add(file)
        if uri not in self._by_id:
            raise SchemaUnusable(f"no file of the folder has the $id {uri!r}")
        return self._by_id[uri]

    def _add(self, file: Path) -> None:
        assert self._by_id is not None, "the caller has begun it"
        try:
            schema = orjson.loads(file.read_bytes())
        except (OSError, ValueError):  # it may be of a rule that says so itself
            return
        if isinstance(schema, dict) and isinstance(schema.get("$id"), str):
            self._by_id[schema["$id"].removesuffix("#")] = schema


def parsed_schema(content: bytes, name: str) -> Any:
    """Return a JSON Schema. Raises SchemaUnusable."""
    try:
        schema = orjson.loads(content)
    except ValueError as problem:
        raise SchemaUnusable(f"{name!r} is not JSON: {problem}") from None
    if not isinstance(schema, (dict, bool)):
        raise SchemaUnusable(f"{name!r} is no JSON Schema: neither an object nor true or false")
    return schema
