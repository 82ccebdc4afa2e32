"""What a SEMP request is refused with: a code and status of SEMP, and text for people.

The broker that we learn from answers 400 for nearly everything, what is not there included; clients look at `status`.
"""

from typing import Final


class SempError(Exception):
    """A request that is refused. `status` is SEMP's word for `code`; `http_status` is that of the response."""

    def __init__(self, code: int, status: str, description: str, *, http_status: int = 400) -> None:
        super().__init__(description)
        self.code = code
        self.status = status
        self.description = description
        self.http_status = http_status


NOT_FOUND: Final = (6, "NOT_FOUND")
ALREADY_EXISTS: Final = (10, "ALREADY_EXISTS")
INVALID_PARAMETER: Final = (11, "INVALID_PARAMETER")
UNAUTHORIZED: Final = (72, "UNAUTHORIZED")
NOT_ALLOWED: Final = (89, "NOT_ALLOWED")


def not_found(what: str) -> SempError:
    """There is nothing of that name."""
    return SempError(*NOT_FOUND, f"Could not find match for {what}")


def already_exists(text: str) -> SempError:
    """There is something of that name, which was not changed."""
    return SempError(*ALREADY_EXISTS, text)


def invalid_parameter(text: str, *, http_status: int = 400) -> SempError:
    """A part of the request is not allowed; the text says which, and what is."""
    return SempError(*INVALID_PARAMETER, text, http_status=http_status)


def not_allowed(text: str, *, http_status: int = 400) -> SempError:
    """The object is there, and does not do that."""
    return SempError(*NOT_ALLOWED, text, http_status=http_status)
