"""Why a schema cannot be used."""

from typing import final


@final
class SchemaUnusable(ValueError):
    """A schema that cannot be read, is none, or could not be checked safely. The text names file and reason."""
