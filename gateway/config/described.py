"""Sections of a configuration as operators describe them in a body: with the same keys, checked by the same models."""

from collections.abc import Mapping
from typing import TypeVar

from pydantic import ValidationError

from sluicegate.gateway.config.findings import finding_of
from sluicegate.gateway.config.sections.section import NamedSection, Section
from sluicegate.messaging.queues.definition import QueueInvalid

S = TypeVar("S", bound=Section)
N = TypeVar("N", bound=NamedSection)


def described(model: type[S], values: Mapping[str, object]) -> S:
    """Return the section that a body describes. Raises QueueInvalid."""
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        found = finding_of(model, error.errors(include_url=False)[0])
        raise QueueInvalid(found.field, found.reason, found.allowed or "keys that go together") from None


def changed(section: N, changes: Mapping[str, object]) -> N:
    """Return a section with some of its keys changed; lists as a whole. Raises QueueInvalid."""
    if changes.get("name", section.name) != section.name:
        raise QueueInvalid("name", "an object keeps its name", section.name)
    return described(type(section), {**section.to_dict(), **changes})
