"""Views to documents and back: pydantic's adapters, each made when it is first used.

One takes a millisecond or two to make. A command needs a single one, and nobody should wait for sixty.
"""

from typing import Any, Final, TypeVar

from pydantic import TypeAdapter

View = TypeVar("View")

_MADE: Final[dict[object, TypeAdapter[Any]]] = {}  # for as many types as there are


def adapter(kind: type[View]) -> TypeAdapter[View]:
    """Return what reads and writes views of this type. Raises PydanticSchemaGenerationError for what is none."""
    made = _MADE.get(kind)
    if made is None:
        made = _MADE[kind] = TypeAdapter(kind)
    return made
