"""Errors of SEMP: a code, a status, and a description.

Solace brokers answer nearly every error with HTTP 400, even for objects that do not exist; clients read `status`.
"""

from typing import Final


class SempError(Exception):
    """A refused request. `status` is SEMP's name of `code`; `http_status` is the status of the response."""

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
    """Return the error for an object that does not exist."""
    return SempError(*NOT_FOUND, f"Could not find match for {what}")


def already_exists(text: str) -> SempError:
    """Return the error for an object that exists already and was not changed."""
    return SempError(*ALREADY_EXISTS, text)


def invalid_parameter(text: str, *, http_status: int = 400) -> SempError:
    """Return the error for an invalid part of the request; the text names it, and what is allowed."""
    return SempError(*INVALID_PARAMETER, text, http_status=http_status)


def not_allowed(text: str, *, http_status: int = 400) -> SempError:
    """Return the error for an operation that the object refuses."""
    return SempError(*NOT_ALLOWED, text, http_status=http_status)
