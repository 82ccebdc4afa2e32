"""pydantic's adapters between views and documents, each made at its first use.

Making one takes a millisecond or two. A command needs one of them, and should not wait for sixty.
"""

from typing import Any, Final, TypeVar

from pydantic import TypeAdapter

View = TypeVar("View")

_MADE: Final[dict[object, TypeAdapter[Any]]] = {}  # by type


def adapter(kind: type[View]) -> TypeAdapter[View]:
    """Return the adapter of this type of view. Raises PydanticSchemaGenerationError for a type that has none."""
    made = _MADE.get(kind)
    if made is None:
        made = _MADE[kind] = TypeAdapter(kind)
    return made
