"""An answer that is given when the store has written: its address goes to the spool, and its future to the asker."""

from typing import Any, final

from sluicegate.actors.messages.data import Confirmed, PublishFailed
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.messaging.message.address import Address


class StoreRefused(Exception):
    """A catalog row was not stored. The text says why."""


@final
class StoredAnswer(Address):
    """The address that the spool confirms to: answers with a value, or StoreRefused when the store has failed."""

    def __init__(self, value: Any) -> None:
        self.future: LoopFuture[Any] = LoopFuture()
        self._value = value

    def post(self, message: object) -> None:
        """Set the answer."""
        if isinstance(message, PublishFailed):
            self.future.set_exception((StoreRefused, StoreRefused(message.reason), None))
        else:
            assert isinstance(message, Confirmed), "only the spool answers"
            self.future.set(self._value)
