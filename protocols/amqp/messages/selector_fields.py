"""Fields of AMQP messages that selectors read beyond the normalised headers: other properties, and message annotations.

They are decoded on demand, from the bytes that travel with the message; for most messages nobody asks.
"""

from typing import Final, final

from sluicegate.messaging.message.headers import (
    CONTENT_ENCODING,
    GROUP_SEQUENCE,
    REPLY_TO_GROUP_ID,
    SUBJECT,
    TO,
    USER_ID,
    NativeFields,
    UserPropertyValue,
)
from sluicegate.protocols.amqp.codec.sections import NOWHERE, find_sections
from sluicegate.protocols.amqp.messages.decode import NATIVE_HEAD_BYTES, native_is_durable, native_travels
from sluicegate.protocols.amqp.messages.encode import with_annotations
from sluicegate.protocols.amqp.messages.text import user_value
from sluicegate.protocols.amqp.types.decoding import decode, decode_list
from sluicegate.protocols.amqp.types.encoding import encode
from sluicegate.protocols.amqp.types.values import AmqpMap, Symbol

# Places in the properties section (3.2.4).
_PLACES: Final = {USER_ID: 1, TO: 2, SUBJECT: 3, CONTENT_ENCODING: 7, GROUP_SEQUENCE: 11, REPLY_TO_GROUP_ID: 12}


@final
class AmqpFields(NativeFields):
    """Reads `Headers.native` of the format NATIVE_AMQP, which was checked when the message came.

    What was read last is kept, for a selector asks one message for each of its names before it comes to the next.
    """

    def __init__(self) -> None:
        self._properties_of = b""  # whose the properties are
        self._properties: list[UserPropertyValue] = []
        self._annotations_of = b""
        self._annotations: dict[str, UserPropertyValue] = {}

    def field(self, native: bytes, name: str) -> UserPropertyValue:
        """Return a field of the properties section; a user-id as text, where it is text."""
        if native is not self._properties_of:
            self._read_properties(native)
        place = _PLACES[name]
        value = self._properties[place] if place < len(self._properties) else None
        return _as_text(value) if name == USER_ID and isinstance(value, bytes) else value

    def is_durable(self, native: bytes) -> bool:
        """Return what the header said, as far as it was stored."""
        return native_is_durable(native)

    def annotation(self, native: bytes, key: str) -> UserPropertyValue:
        """Return a message annotation."""
        if native is not self._annotations_of:
            self._read_annotations(native)
        return self._annotations.get(key)

    def with_annotation(self, native: bytes, key: str, value: UserPropertyValue) -> bytes:
        """Return the form with a message annotation; the bare message stays as it is."""
        travels = native_travels(native)
        at = NATIVE_HEAD_BYTES
        annotated = with_annotations(travels, encode(AmqpMap([(Symbol(key), value)])))
        return native[:at] + annotated + native[at + len(travels) :]

    def _read_properties(self, native: bytes) -> None:
        travels = native_travels(native)
        at = find_sections(travels).properties_at
        self._properties_of = native
        self._properties = []
        if at != NOWHERE:
            items, _ = decode_list(travels, at, len(travels))
            self._properties = [user_value(item) for item in items]

    def _read_annotations(self, native: bytes) -> None:
        travels = native_travels(native)
        at = find_sections(travels).annotations_at
        self._annotations_of = native
        self._annotations = {}
        if at != NOWHERE:
            annotations, _ = decode(travels, at, len(travels))
            assert isinstance(annotations, AmqpMap), "it was checked when the message came"
            for key, value in annotations.pairs:
                if isinstance(key, Symbol):
                    self._annotations[key.text] = user_value(value)


def _as_text(data: bytes) -> str | bytes:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data
