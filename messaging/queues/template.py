"""Queue templates: attributes for new queues, chosen by the queue's name.

A template sets the attributes that the creator of a queue did not. Its filter is written like a topic filter in SMF
syntax, for a queue's name: `*` ends a level or is one, `>` is one or more levels at the end. A filter without `/` whose
wildcards only make sense between dots, such as `Consumer.*.>`, has its levels there, as JMS brokers write names. The
queue directory stores templates, and applies them to queues that clients request.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, final

from sluicegate.messaging.queues.attributes import ATTRIBUTE_BY_NAME, AttributeValue, no_such_attribute, quoted
from sluicegate.messaging.queues.definition import QueueInvalid, check_queue_name, config_from_dict
from sluicegate.messaging.topics.syntax import (
    ANY_LEVEL,
    LITERAL,
    PREFIX,
    Level,
    Syntax,
    TopicError,
    TopicFilter,
    matches,
    parse_filter,
)

OVERRIDE_NONE: Final = "none"
OVERRIDE_NON_DURABLE: Final = "non-durable"  # a queue requested as durable becomes temporary
DURABILITY_OVERRIDES: Final = (OVERRIDE_NONE, OVERRIDE_NON_DURABLE)

NOT_IN_TEMPLATES: Final = ("owner",)  # a queue that a client creates belongs to its user, others to none

FILTER_ALLOWED: Final = "levels between '/' or '.', in which `*` ends a level or is one, and `>` is the last level"

TEMPORARY_SPOOL_MB: Final = 64  # default quota of temporary queues: smaller, for they are in memory only


@final
@dataclass(frozen=True)
class QueueTemplate:
    """One template. Attributes that it does not set have their defaults."""

    name: str
    queue_name_filter: str
    durability_override: str
    attributes: dict[str, AttributeValue]

    def name_filter(self) -> TopicFilter:
        """Return the parsed filter, with a `/` between its levels."""
        parsed = parse_filter(self.queue_name_filter, Syntax.SMF)
        return parsed if self._dotted is None else self._dotted

    def matches(self, queue_name: str) -> bool:
        """Return whether the template applies to a queue of this name."""
        if self._dotted is not None and "/" not in queue_name:
            queue_name = queue_name.replace(".", "/")
        return matches(self.name_filter(), queue_name)

    @property
    def _dotted(self) -> TopicFilter | None:
        """The filter with its levels between dots; None: it has them between slashes."""
        text = self.queue_name_filter
        if "/" in text or not _has_literal_wildcard(parse_filter(text, Syntax.SMF)):
            return None
        try:
            return parse_filter(text.replace(".", "/"), Syntax.SMF)
        except TopicError:  # an empty level
            return None

    def to_dict(self) -> dict[str, AttributeValue]:
        """Return the form that `template_from_dict` reads."""
        return {
            "name": self.name,
            "queue_name_filter": self.queue_name_filter,
            "durability_override": self.durability_override,
            **self.attributes,
        }


def template_from_dict(values: dict[str, object]) -> QueueTemplate:
    """Build a checked template: name, queue_name_filter, durability_override, and any attributes of queues.

    Raises QueueInvalid, naming the field, for a value that is missing, unknown or not allowed.
    """
    name = values.get("name")
    if not isinstance(name, str):
        raise QueueInvalid("name", "it is missing" if name is None else f"{quoted(name)} is not a text", "a text")
    check_queue_name(name)
    attributes: dict[str, AttributeValue] = {}
    for key, value in values.items():
        if key in ("name", "queue_name_filter", "durability_override"):
            continue
        attribute = ATTRIBUTE_BY_NAME.get(key)
        if attribute is None or key in NOT_IN_TEMPLATES:
            known = [each for each in ATTRIBUTE_BY_NAME if each not in NOT_IN_TEMPLATES]
            reason = "templates have no such attribute" if key in NOT_IN_TEMPLATES else no_such_attribute(key)
            raise QueueInvalid(key, reason, ", ".join(known))
        if not attribute.accepts(value) or not isinstance(value, str | int | bool):
            raise QueueInvalid(key, f"{quoted(value)} is not allowed", attribute.allowed())
        attributes[key] = value
    override = values.get("durability_override", OVERRIDE_NONE)
    if override not in DURABILITY_OVERRIDES or not isinstance(override, str):
        allowed = "one of: " + ", ".join(DURABILITY_OVERRIDES)
        raise QueueInvalid("durability_override", f"{quoted(override)} is not allowed", allowed)
    config_from_dict({"name": name, **attributes})  # attributes that exclude each other
    return QueueTemplate(name, _checked_filter(values.get("queue_name_filter")), override, attributes)


def changed_template(template: QueueTemplate, changes: dict[str, object]) -> QueueTemplate:
    """Return the template with some fields replaced; None removes an attribute. The name stays."""
    name = changes.get("name", template.name)
    if name != template.name:
        raise QueueInvalid("name", f"{template.name!r} cannot become {name!r}", "create another template")
    values: dict[str, object] = {**template.to_dict(), **changes}
    return template_from_dict({key: value for key, value in values.items() if value is not None})


def check_template_matches(template: QueueTemplate) -> None:
    """Raise QueueInvalid if no queue's name can match the filter. A stored template may have such a filter."""
    if _has_literal_wildcard(template.name_filter()):
        reason = f"{quoted(template.queue_name_filter)} matches no queue: a wildcard is not at the end of its level"
        raise QueueInvalid("queue_name_filter", reason, FILTER_ALLOWED)


def template_for(templates: Iterable[QueueTemplate], queue_name: str) -> QueueTemplate | None:
    """Return the template with the most specific filter for the name; of equal filters, the first by template name."""
    fitting = [each for each in templates if each.matches(queue_name)]
    return min(fitting, key=lambda each: (_specificity(each.name_filter()), each.name)) if fitting else None


@final
class QueueTemplates:
    """The templates of a message VPN by name."""

    def __init__(self, templates: Iterable[QueueTemplate]) -> None:
        self.by_name: dict[str, QueueTemplate] = {each.name: each for each in templates}

    def fill_in(self, asked: dict[str, object], durable: bool | None) -> tuple[dict[str, object], bool]:
        """Return the definition of a queue, and whether it is durable; templates set what was not asked for."""
        template = template_for(self.by_name.values(), str(asked.get("name", "")))
        if durable is None:
            durable = template is None or template.durability_override != OVERRIDE_NON_DURABLE
        values: dict[str, object] = {} if durable else {"max_msg_spool_usage": TEMPORARY_SPOOL_MB}
        attributes: dict[str, AttributeValue] = {} if template is None else template.attributes
        return {**values, **attributes, **asked}, durable


def _checked_filter(given: object) -> str:
    if not isinstance(given, str):
        reason = "it is missing" if given is None else f"{quoted(given)} is not a text"
        raise QueueInvalid("queue_name_filter", reason, FILTER_ALLOWED)
    try:
        parse_filter(given, Syntax.SMF)
    except TopicError as error:
        raise QueueInvalid("queue_name_filter", str(error), FILTER_ALLOWED) from error
    return given


def _has_literal_wildcard(name_filter: TopicFilter) -> bool:
    """Return whether a level contains a wildcard as text, which names of queues do not have."""
    return any("*" in level.text or (">" in level.text) for level in name_filter.levels)


def _specificity(name_filter: TopicFilter) -> list[tuple[int, int]]:
    """Return a key that sorts the most specific filter first: by level a literal, the longest prefix, `*`, then `>`."""
    return [_rank(level) for level in name_filter.levels]


def _rank(level: Level) -> tuple[int, int]:
    if level.kind == LITERAL:
        return 0, 0
    if level.kind == PREFIX:
        return 1, -len(level.text)
    return (2, 0) if level.kind == ANY_LEVEL else (3, 0)
