"""What only the form says in which a message came: fields that have no place among the normalised headers.

A protocol that keeps such a form in `Headers.native` derives a reader from `NativeFields`; the node hands the readers
to whoever asks messages for such fields (`messaging.selectors`).
"""

from typing import Final

from messaging.headers import UserPropertyValue

SUBJECT: Final = "subject"
TO: Final = "to"
USER_ID: Final = "user-id"
CONTENT_ENCODING: Final = "content-encoding"
GROUP_SEQUENCE: Final = "group-sequence"
REPLY_TO_GROUP_ID: Final = "reply-to-group-id"
FIELDS: Final = (SUBJECT, TO, USER_ID, CONTENT_ENCODING, GROUP_SEQUENCE, REPLY_TO_GROUP_ID)


class NativeFields:
    """Reads the native form of one protocol. A class and no protocol, as `Address` is."""

    def field(self, native: bytes, name: str) -> UserPropertyValue:
        """Return one of FIELDS, or None when the message does not have it."""
        raise AssertionError("a form is some protocol's")

    def annotation(self, native: bytes, key: str) -> UserPropertyValue:
        """Return a value that somebody on the way put on the message, or None."""
        raise AssertionError("a form is some protocol's")

    def with_annotation(self, native: bytes, key: str, value: UserPropertyValue) -> bytes:
        """Return the form with a value put on the message, or put in place of another."""
        raise AssertionError("a form is some protocol's")
