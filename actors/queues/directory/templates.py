"""What is asked about the templates of queues: each is in force once the store has it."""

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, final

from sluicegate.actors.messages.data import StoreRefused
from sluicegate.actors.messages.directory import DeleteTemplate, ListTemplates, PutTemplate, TemplateExists
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.messaging.queues.template import QueueTemplates
from sluicegate.storage.catalog.queues import template_row
from sluicegate.storage.interface import TableWrite


class WritesRows(Protocol):
    """Has rows of the message VPN written."""

    def __call__(
        self, rows: list[TableWrite], done: Callable[[str], None], *, takes_ids: bool = False, until_done: bool = False
    ) -> None:
        """Write rows, together with ids that were taken for them. `done` gets why not; empty: they are stored."""


@final
class TemplateRequests:
    """Answers requests about the templates of a message VPN."""

    def __init__(self, templates: QueueTemplates, write: WritesRows) -> None:
        self._templates = templates
        self._write = write

    def handlers(self) -> dict[type, Callable[[Any], Any]]:
        """Return who handles which request."""
        return {
            PutTemplate: self._put,
            DeleteTemplate: self._delete,
            ListTemplates: lambda _: [self._templates.by_name[name] for name in sorted(self._templates.by_name)],
        }

    def _put(self, message: PutTemplate) -> LoopFuture[None]:
        answer: LoopFuture[None] = LoopFuture()
        template = message.template
        if message.must_be_new and template.name in self._templates.by_name:
            raise TemplateExists(template.name)

        def stored(reason: str) -> None:
            if reason:
                answer.set_exception((StoreRefused, StoreRefused(reason), None))
                return
            self._templates.by_name[template.name] = template
            answer.set(None)

        self._write([template_row(template.name, template)], stored)
        return answer

    def _delete(self, message: DeleteTemplate) -> LoopFuture[bool]:
        answer: LoopFuture[bool] = LoopFuture()
        if self._templates.by_name.pop(message.name, None) is None:
            answer.set(False)
            return answer
        self._write([template_row(message.name, None)], partial(answer_deletion, answer), until_done=True)
        return answer


def answer_deletion(answer: LoopFuture[bool], reason: str) -> None:
    """Answer that something is deleted, or why it will exist again when the node starts the next time."""
    if reason:
        answer.set_exception((StoreRefused, StoreRefused(reason), None))
    else:
        answer.set(True)
