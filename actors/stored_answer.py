"""An answer that waits for the store: whoever writes gives its address to the spool, and the future to who asked."""

from typing import Any, final

from actors.data_messages import Confirmed
from actors.futures import LoopFuture
from messaging.address import Address


@final
class StoredAnswer(Address):
    """Where the spool says that something is stored. For what is written until it is done, and so is never refused."""

    def __init__(self, value: Any) -> None:
        self.future: LoopFuture[Any] = LoopFuture()
        self._value = value

    def post(self, message: object) -> None:
        """Give the answer."""
        assert isinstance(message, Confirmed), "it is written until it is done"
        self.future.set(self._value)
