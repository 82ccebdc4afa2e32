"""What pydantic finds wrong with a section, in our words: which key, what is wrong with it, and what would do."""

from dataclasses import dataclass

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from sluicegate.gateway.config.allowed import PATH, TEXT, Setting, allowed_by, allowed_item, is_secret, setting_at
from sluicegate.gateway.config.document import Path
from sluicegate.gateway.config.errors import no_such_key
from sluicegate.messaging.queues.wrong_value import seen


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong."""

    path: Path
    reason: str
    allowed: str = ""  # empty: the reason says it
    of_key: bool = False  # the key is wrong, not its value

    @property
    def field(self) -> str:
        """The path with dots."""
        return ".".join(str(part) for part in self.path)

    def __str__(self) -> str:
        return f"{self.reason}; allowed: {self.allowed}" if self.allowed else self.reason


def finding_of(root: type[BaseModel], details: ErrorDetails) -> Finding:
    """Return what one of pydantic's findings about `root` says."""
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
    # A rule of ours says in full what is wrong: of a section, of a list, of an item of one, of a text or a path.
    several = isinstance(details["input"], dict | list)
    if isinstance(ours, ValueError) and (setting.item or several or allowed in (TEXT, PATH)):
        return Finding(setting.path, str(ours))
    shown = "this value" if is_secret(setting.field) else seen(details["input"])
    if details["type"] in ("string_type", "path_type") and not several and details["input"] is not None:
        allowed += ", in quotes"  # which YAML needs, and JSON, to take it for one
    return Finding(setting.path, f"{shown} is not allowed", allowed)
