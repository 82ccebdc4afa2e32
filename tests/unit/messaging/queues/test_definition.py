"""The configuration of a queue has one field for each row of the table of attributes."""

from dataclasses import fields
from typing import get_type_hints

from sluicegate.messaging.queues.attributes import ATTRIBUTES, FLAG, NUMBER
from sluicegate.messaging.queues.definition import QueueConfig


def test_fields_are_the_attributes_with_their_types_and_defaults() -> None:
    types = get_type_hints(QueueConfig)
    declared = {each.name: (types[each.name], each.default) for each in fields(QueueConfig) if each.name != "name"}
    kinds = {FLAG: bool, NUMBER: int}
    assert declared == {each.name: (kinds.get(each.kind, str), each.default) for each in ATTRIBUTES}
