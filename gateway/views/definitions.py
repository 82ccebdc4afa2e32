"""Views of an applied document of definitions: what became of each object, or would."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class DefinitionOutcome(StrEnum):
    """What became of an object; of a dry run, what would become of it."""

    CREATED = "created"
    CHANGED = "changed"
    DELETED = "deleted"
    UNCHANGED = "unchanged"  # it is as the document has it
    LEFT = "left"  # the document does not list it
    REFUSED = "refused"
    PENDING = "pending"  # it differs, and was not reached


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionView:
    """One object of a document, or one of the node that the document does not list."""

    vpn_name: str
    kind: str  # as the document names it
    name: str
    outcome: DefinitionOutcome
    reason: str = ""  # of a refusal, or why it is pending
    fields: Mapping[str, object] = field(
        default_factory=dict
    )  # created: those that the document gives; changed: the new values
    before: Mapping[str, object] = field(default_factory=dict)  # changed: the values that they replace


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionsView:
    """What became of all objects of a document."""

    dry_run: bool  # nothing was changed
    changes_count: int  # objects that differ: created, changed, deleted, refused and pending ones
    made_count: int  # changes that were made
    time_is_up: bool  # the pending ones need another request
    objects: tuple[DefinitionView, ...]  # in the order of the changes; after them unchanged and left ones
