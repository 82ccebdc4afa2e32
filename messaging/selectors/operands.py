"""The operands of a selector's conditions: properties and headers of a message, constants, and arithmetic.

The value of an operand for a message is a text, a number, a truth value, bytes, or None where the message has no such
field or the arithmetic has no result. An operand can also be written as text. Conditions are
`messaging.selectors.conditions`.
"""

import math
from collections.abc import Mapping
from typing import Final, final

from sluicegate.messaging.message.batch import AT_MOST_ONCE, MessageBatch
from sluicegate.messaging.message.headers import (
    ORIGINAL_DESTINATION,
    PRIORITY_DEFAULT,
    Headers,
    NativeFields,
    UserPropertyValue,
)
from sluicegate.messaging.selectors.lexer import quoted_name, quoted_text
from sluicegate.messaging.topics.syntax import queue_topic, shown_destination

# How strongly a form binds the words beside it; a form that binds less than its place requires gets parentheses.
BINDS_OR: Final = 1
BINDS_AND: Final = 2
BINDS_NOT: Final = 3
BINDS_EQUALITY: Final = 4  # as strongly as comparisons, except in ActiveMQ's dialect
BINDS_COMPARISON: Final = 5
BINDS_SUM: Final = 6
BINDS_PRODUCT: Final = 7
BINDS_SIGN: Final = 8
BINDS_ALL: Final = 9

# Headers that every message has, or may have, whatever its protocol.
PRIORITY: Final = 0
MESSAGE_ID: Final = 2
TIMESTAMP: Final = 3
CORRELATION_ID: Final = 4
GROUP_ID: Final = 5
EXPIRATION: Final = 6
DESTINATION: Final = 7
ADDRESS: Final = 8
REPLY_TO: Final = 9
CONTENT_TYPE: Final = 12
EXPIRY_TIME: Final = 13
CREATION_TIME: Final = 14
SIZE: Final = 15
CURRENT_DESTINATION: Final = 16

# What names say of a durable message, and of another.
DELIVERY_MODES: Final = ("PERSISTENT", "NON_PERSISTENT")
DURABLE_TEXTS: Final = ("DURABLE", "NON_DURABLE")
DURABLE_FLAGS: Final = (True, False)

_QUEUE_TOPICS: Final = queue_topic("")


class Operand:
    """One side of a comparison. `depth` is the depth of nesting, itself included."""

    def __init__(self, depth: int, binds: int) -> None:
        self.depth = depth
        self.binds = binds  # BINDS_...

    def value(self, batch: MessageBatch, row: int, headers: Headers | None) -> UserPropertyValue:
        """Return the value for a row of a batch with these headers."""
        raise AssertionError("Operand is abstract")

    def text(self) -> str:
        """Return the operand as written."""
        raise AssertionError("Operand is abstract")

    def text_in(self, binds: int) -> str:
        """Return the operand as written within a form that binds this strongly."""
        return self.text() if self.binds >= binds else f"({self.text()})"

    def may_have_order(self) -> bool:
        """Return False if the selector shows that its values have no order."""
        return True


@final
class Constant(Operand):
    """A text, number or truth value in the selector; in ActiveMQ's dialect also NULL."""

    def __init__(self, constant: str | int | float | bool | None) -> None:
        super().__init__(1, BINDS_ALL)
        self.constant: Final = constant

    def value(self, batch: MessageBatch, row: int, headers: Headers | None) -> UserPropertyValue:
        """Return the constant."""
        return self.constant

    def text(self) -> str:
        """Return the constant as written."""
        constant = self.constant
        if isinstance(constant, str):
            return quoted_text(constant)
        return "NULL" if constant is None else repr(constant).upper()

    def is_truth(self) -> bool:
        """Return whether it is a truth value."""
        return isinstance(self.constant, bool)

    def may_have_order(self) -> bool:
        """Return whether it is a number."""
        return isinstance(self.constant, (int, float)) and not isinstance(self.constant, bool)


class Name(Operand):
    """A named field of a message. Derived classes say where it is found."""

    def __init__(self, name: str) -> None:
        super().__init__(1, BINDS_ALL)
        self.name: Final = name

    def text(self) -> str:
        """Return the name."""
        return quoted_name(self.name)


@final
class Property(Name):
    """A user property, the first of that name; of a dead message also the properties of its death."""

    def value(self, batch: MessageBatch, row: int, headers: Headers | None) -> UserPropertyValue:
        """Return the value, None when there is no such property."""
        return None if headers is None else user_property(headers, self.name)


@final
class Header(Name):
    """A header. `code` is one of the numbers above."""

    def __init__(self, name: str, code: int) -> None:
        super().__init__(name)
        self._code = code

    def value(self, batch: MessageBatch, row: int, headers: Headers | None) -> UserPropertyValue:
        """Return the value of the header."""
        code = self._code
        if code == PRIORITY:
            return PRIORITY_DEFAULT if headers is None else headers.priority
        if code == TIMESTAMP:
            return batch.received_ms if headers is None or headers.timestamp_ms == 0 else headers.timestamp_ms
        if code == EXPIRATION:
            return 0 if headers is None else headers.expires_at_ms
        if code == DESTINATION:
            return _destination(batch.topic_of(row), headers)
        if code == CURRENT_DESTINATION:
            return _destination(batch.topic_of(row), None)
        if code == ADDRESS:
            return batch.topic_of(row).removeprefix(_QUEUE_TOPICS)
        if code == SIZE:
            return len(batch.payloads()[row])
        return None if headers is None else _optional(code, headers)


@final
class Durability(Name):
    """Whether the publisher sent the message as durable. `values`: of a durable message, and of another."""

    def __init__(
        self,
        name: str,
        values: tuple[UserPropertyValue, UserPropertyValue],
        natives: Mapping[int, NativeFields],
    ) -> None:
        super().__init__(name)
        self._values = values
        self._natives = natives

    def value(self, batch: MessageBatch, row: int, headers: Headers | None) -> UserPropertyValue:
        """Return one of the values. A direct message is not durable."""
        durable, other = self._values
        if batch.qos == AT_MOST_ONCE:
            return other
        reader = None if headers is None else self._natives.get(headers.native_format)
        return durable if headers is None or reader is None or reader.is_durable(headers.native) else other


@final
class NativeField(Name):
    """A field of the native form of a message; where the form lacks it, the user property of that name."""

    def __init__(self, name: str, field: str, natives: Mapping[int, NativeFields]) -> None:
        super().__init__(name)
        self._field = field
        self._natives = natives

    def value(self, batch: MessageBatch, row: int, headers: Headers | None) -> UserPropertyValue:
        """Return the value, None when the message has none."""
        if headers is None:
            return None
        reader = self._natives.get(headers.native_format)
        found = None if reader is None else reader.field(headers.native, self._field)
        return user_property(headers, self.name) if found is None else found


@final
class Annotation(Name):
    """A message annotation, written `m.KEY`."""

    def __init__(self, name: str, key: str, natives: Mapping[int, NativeFields]) -> None:
        super().__init__(name)
        self._key = key
        self._natives = natives

    def value(self, batch: MessageBatch, row: int, headers: Headers | None) -> UserPropertyValue:
        """Return the value, None when the message has none."""
        if headers is None:
            return None
        reader = self._natives.get(headers.native_format)
        return None if reader is None else reader.annotation(headers.native, self._key)


@final
class Negative(Operand):
    """A number with its sign changed."""

    def __init__(self, operand: Operand) -> None:
        super().__init__(operand.depth + 1, BINDS_SIGN)
        self._operand = operand

    def value(self, batch: MessageBatch, row: int, headers: Headers | None) -> UserPropertyValue:
        """Return the number, None for a value that is no number."""
        number = self._operand.value(batch, row, headers)
        if isinstance(number, (int, float)) and not isinstance(number, bool):
            return -number
        return None

    def text(self) -> str:
        """Return the operand with its sign; `--` would begin a comment."""
        return "-" + self._operand.text_in(BINDS_ALL)


class Arithmetic(Operand):
    """Two numbers and one of `+ - * / %`. ActiveMQ's dialect has more results."""

    def __init__(self, sign: str, left: Operand, right: Operand) -> None:
        super().__init__(max(left.depth, right.depth) + 1, BINDS_SUM if sign in "+-" else BINDS_PRODUCT)
        self._sign = sign
        self._left = left
        self._right = right

    def value(self, batch: MessageBatch, row: int, headers: Headers | None) -> UserPropertyValue:
        """Return the result, None when one side is no number or there is no result."""
        left = self._left.value(batch, row, headers)
        right = self._right.value(batch, row, headers)
        if not isinstance(left, (int, float)) or not isinstance(right, (int, float)):
            return None
        if isinstance(left, bool) or isinstance(right, bool):
            return None
        try:
            return _calculated(self._sign, left, right)
        except (ArithmeticError, ValueError):  # by zero, or beyond what a double holds
            return None

    def text(self) -> str:
        """Return both sides with the sign between them."""
        return f"{self._left.text_in(self.binds)} {self._sign} {self._right.text_in(self.binds + 1)}"


def user_property(headers: Headers, name: str) -> UserPropertyValue:
    """Return a user property of a message, the first of that name, or None."""
    properties = headers.user_properties
    if properties is not None:
        for key, value in properties:
            if key == name:
                return value
    if headers.dead is not None:
        for key, carried in headers.dead.properties():
            if key == name:
                return carried
    return None


def _optional(code: int, headers: Headers) -> UserPropertyValue:
    """Return a header that only messages with headers have."""
    if code == MESSAGE_ID:
        return headers.message_id
    if code == GROUP_ID:
        return headers.partition_key
    if code == CORRELATION_ID:
        return None if headers.correlation is None else _id_text(headers.correlation)
    if code == CONTENT_TYPE:
        return headers.content_type
    if code == EXPIRY_TIME:
        return headers.expires_at_ms or None
    if code == CREATION_TIME:
        return headers.timestamp_ms or None
    return headers.reply_to


def _id_text(data: bytes) -> str:
    """Return a correlation id as in JMS: text, or the text that the JMS mapping to AMQP gives binary data."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return "ID:AMQP_BINARY:" + data.hex().upper()


def _destination(topic: str, headers: Headers | None) -> str:
    """Return the destination of a message; of a copy, the destination of its original."""
    if headers is not None and headers.user_properties is not None:
        for name, value in headers.user_properties:
            if name == ORIGINAL_DESTINATION and isinstance(value, str):
                return value
    return shown_destination(topic)


def _calculated(sign: str, left: int | float, right: int | float) -> int | float:
    """Return a result. Raises ArithmeticError or ValueError where there is none."""
    if sign == "+":
        return left + right
    if sign == "-":
        return left - right
    if sign == "*":
        return left * right
    if sign == "/":
        return left / right
    if isinstance(left, int) and isinstance(right, int):  # exact, and with the sign of the left side, as in SQL
        rest = abs(left) % abs(right)
        return -rest if left < 0 else rest
    return math.fmod(left, right)
