"""Translate pydantic's errors about a section: the key, what is wrong with it, and what is allowed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from sluicegate.gateway.config.allowed import PATH, TEXT, Setting, allowed_by, allowed_item, is_secret, setting_at
from sluicegate.gateway.config.document import Path, no_such_key
from sluicegate.gateway.config.sections.section import NamedSection, Section
from sluicegate.messaging.queues.attributes import quoted
from sluicegate.messaging.queues.definition import QueueInvalid


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem of a section."""

    path: Path
    reason: str
    allowed: str = ""  # empty: the reason has it
    of_key: bool = False  # the key is wrong, not its value

    @property
    def field(self) -> str:
        """The path with dots."""
        return ".".join(str(part) for part in self.path)

    def __str__(self) -> str:
        return f"{self.reason}; allowed: {self.allowed}" if self.allowed else self.reason


def finding_of(root: type[BaseModel], details: ErrorDetails) -> Finding:
    """Translate one of pydantic's errors about `root`."""
    location: Path = details["loc"]
    if not location:  # a rule between its keys
        return Finding((), str(details.get("ctx", {}).get("error", details["msg"])))
    setting = setting_at(root, location)
    if details["type"] == "extra_forbidden" or setting.field is None:
        known = setting.model.model_fields
        return Finding(setting.path, no_such_key(str(setting.path[-1]), known), ", ".join(known), of_key=True)
    if details["type"] == "missing":
        return Finding(setting.path, "it is missing", allowed_by(setting.field))
    return _wrong_value(setting, details)


def _wrong_value(setting: Setting, details: ErrorDetails) -> Finding:
    if setting.field is None:
        return Finding(setting.path, details["msg"])
    ours = details.get("ctx", {}).get("error")
    allowed = allowed_item(setting.field) if setting.item else allowed_by(setting.field)
    # The gateway's own rules have complete texts: of a section, a list, an item of one, a text or a path.
    several = isinstance(details["input"], dict | list)
    if isinstance(ours, ValueError) and (setting.item or several or allowed in (TEXT, PATH)):
        return Finding(setting.path, str(ours))
    shown = "this value" if is_secret(setting.field) else quoted(details["input"])
    if details["type"] in ("string_type", "path_type") and not several and details["input"] is not None:
        allowed += ", in quotes"  # needed by YAML and JSON
    return Finding(setting.path, f"{shown} is not allowed", allowed)


# --- sections in request bodies of operators: with the same keys, checked by the same models ---


S = TypeVar("S", bound=Section)
N = TypeVar("N", bound=NamedSection)


def described(model: type[S], values: Mapping[str, object]) -> S:
    """Return the section that a body describes. Raises QueueInvalid."""
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        found = finding_of(model, error.errors(include_url=False)[0])
        raise QueueInvalid(found.field, found.reason, found.allowed) from None


def changed(section: N, changes: Mapping[str, object]) -> N:
    """Return a section with some of its keys changed; lists as a whole. Raises QueueInvalid."""
    if changes.get("name", section.name) != section.name:
        raise QueueInvalid("name", "an object cannot be renamed", section.name)
    return described(type(section), {**section.to_dict(), **changes})
