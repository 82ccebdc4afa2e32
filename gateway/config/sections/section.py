"""The base of every configuration section: frozen, and without unknown keys."""

import os
from typing import get_args

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator

# Without this, pydantic searches the metadata of every installed package for plugins before the first section.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")


class Section(BaseModel):
    """A group of settings. Each field's description is its documentation, in the schema and in `check-config`."""

    # Defaults are validated too, so a default can never be a value that a file could not hold.
    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_boolean_as_number(cls, value: object, info: ValidationInfo) -> object:
        """Refuse `yes`, which YAML reads as true and pydantic accepts as 1."""
        if isinstance(value, bool) and info.field_name is not None:
            annotation = cls.model_fields[info.field_name].annotation
            if {int, float} & {annotation, *get_args(annotation)}:
                raise ValueError("true and false are not numbers")
        return value


class NamedSection(Section):
    """A section in a list, identified by its name."""

    name: str

    def to_dict(self) -> dict[str, object]:
        """Return the section as in a file or request body, with its defaults."""
        return self.model_dump(mode="json")
