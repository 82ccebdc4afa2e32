"""The queue templates of a node: stored in the catalog, and applied to queues that clients request."""

from collections.abc import Iterator

import orjson

from sluicegate.messaging.queues.attributes import AttributeValue
from sluicegate.messaging.queues.template import OVERRIDE_NON_DURABLE, QueueTemplate, template_for, template_from_dict
from sluicegate.storage.errors import UnknownRow
from sluicegate.storage.interface import Table, TableWrite

TEMPLATE_ROW = b"template/"

# Default quota of temporary queues: smaller, for they hold their messages in memory only.
TEMPORARY_SPOOL_MB = 64


class QueueTemplates:
    """Templates by name."""

    def __init__(self, catalog: dict[bytes, bytes]) -> None:
        """Read the templates of the catalog. Raises UnknownRow for one that this release cannot read."""
        self.by_name: dict[str, QueueTemplate] = {each.name: each for each in _stored_templates(catalog)}

    def fill_in(self, asked: dict[str, object], durable: bool | None) -> tuple[dict[str, object], bool]:
        """Return the definition of a queue, and whether it is durable; templates set what was not asked for."""
        template = template_for(self.by_name.values(), str(asked.get("name", "")))
        if durable is None:
            durable = template is None or template.durability_override != OVERRIDE_NON_DURABLE
        values: dict[str, object] = {} if durable else {"max_msg_spool_usage": TEMPORARY_SPOOL_MB}
        attributes: dict[str, AttributeValue] = {} if template is None else template.attributes
        return {**values, **attributes, **asked}, durable


def template_row(name: str, template: QueueTemplate | None) -> TableWrite:
    """Return the row that stores a template, or with None the one that deletes it."""
    value = None if template is None else orjson.dumps(template.to_dict())
    return TableWrite(Table.CATALOG, TEMPLATE_ROW + name.encode(), value)


def _stored_templates(catalog: dict[bytes, bytes]) -> Iterator[QueueTemplate]:
    for key, value in catalog.items():
        if key.startswith(TEMPLATE_ROW):
            try:
                template = template_from_dict(orjson.loads(value))
            except ValueError as problem:
                name = key.removeprefix(TEMPLATE_ROW).decode(errors="backslashreplace")
                raise UnknownRow(f"queue template {name!r}", problem) from None
            yield template
