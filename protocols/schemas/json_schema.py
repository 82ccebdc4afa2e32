"""JSON Schema, drafts 4 to 2020-12, by jsonschema-rs.

Patterns have a limit of steps, so that no payload keeps the loop busy with one.
"""

from collections.abc import Callable
from typing import Final

import jsonschema_rs
import orjson

from sluicegate.protocols.schemas.errors import SchemaUnusable
from sluicegate.protocols.schemas.references import BASE, FolderReferences, parsed_schema

PATTERN_STEPS_MAX: Final = 50_000  # of one pattern with look-around or references; others take linear time
_MASK: Final = "the value"  # instead of what a payload says: a problem is told to operators as well


def json_problem_finder(content: bytes, references: FolderReferences, name: str) -> Callable[[bytes], str]:
    """Return a function that says why a payload does not fit a schema. Raises SchemaUnusable."""
    schema = parsed_schema(content, name)
    try:
        validator = jsonschema_rs.validator_for(
            schema,
            retriever=references.read,
            base_uri=f"{BASE}{name}",
            mask=_MASK,
            pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=PATTERN_STEPS_MAX),
        )
    except Exception as problem:  # ValidationError, ReferencingError, ValueError: its releases differ
        first_line = str(problem).partition("\n")[0]
        raise SchemaUnusable(f"{name!r} is no usable JSON Schema: {first_line}") from None

    def problem_of(payload: bytes) -> str:
        try:
            document = orjson.loads(payload)
        except ValueError as problem:
            return f"it is not JSON: {problem}"
        try:
            validator.validate(document)
        except jsonschema_rs.ValidationError as problem:
            return f"{_path(problem.instance_path)}: {problem.message}"
        except ValueError as problem:  # nested too deeply
            return str(problem)
        return ""

    return problem_of


def _path(parts: list[str | int]) -> str:
    return "$" + "".join([f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts])
