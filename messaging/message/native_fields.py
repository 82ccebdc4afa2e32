"""What only the form says in which a message came: fields that have no place among the normalised headers.

A protocol that keeps such a form in `Headers.native` derives a reader from `NativeFields`; the node hands the readers
to whoever asks messages for such fields (`messaging.selectors.selector`), or puts properties of the broker's on them.
"""

from collections.abc import Mapping
from typing import Final

from sluicegate.messaging.message.headers import NATIVE_NONE, Headers, UserPropertyValue

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


def marked(
    headers: Headers | None,
    marks: list[tuple[str, UserPropertyValue]],
    natives: Mapping[int, NativeFields],
    *,
    without: tuple[str, ...] = (),
) -> Headers:
    """Return the headers of a message that gets user properties in place of those of the same names, or `without`.

    Its native form gets them as annotations, if it is one of `natives`: all others hold what the headers hold, and go.
    """
    changed = Headers() if headers is None else headers.copy()
    names = [*without, *[name for name, _ in marks]]
    changed.user_properties = [each for each in changed.user_properties or [] if each[0] not in names] + marks
    native = natives.get(changed.native_format)
    if native is None:
        changed.native_format = NATIVE_NONE
        changed.native = b""
    else:
        for name, value in marks:
            changed.native = native.with_annotation(changed.native, name, value)
    return changed
