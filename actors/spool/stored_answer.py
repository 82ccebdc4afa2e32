"""An answer that waits for the store: whoever writes gives its address to the spool, and the future to who asked."""

from typing import Any, final

from sluicegate.actors.messages.data import Confirmed, PublishFailed
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.messaging.message.address import Address


class StoreRefused(Exception):
    """What was to be kept in the catalog is not in the store. The text says why."""


@final
class StoredAnswer(Address):
    """Where the spool says that something is stored: the value, or StoreRefused once the store has failed for good."""

    def __init__(self, value: Any) -> None:
        self.future: LoopFuture[Any] = LoopFuture()
        self._value = value

    def post(self, message: object) -> None:
        """Give the answer."""
        if isinstance(message, PublishFailed):
            self.future.set_exception((StoreRefused, StoreRefused(message.reason), None))
        else:
            assert isinstance(message, Confirmed), "nobody but the spool answers"
            self.future.set(self._value)
