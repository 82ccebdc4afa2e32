"""Operations of the admin API: method, path, parameters, possible responses, and the function that performs it.

The modules of `gateway.admin.rest` declare operations by decorating functions. The router, the OpenAPI document and the
documentation page are built from these declarations.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Literal

from starlette.requests import Request
from starlette.responses import Response

from sluicegate.gateway.admin.versions import CHANGES, SETTINGS
from sluicegate.gateway.config.sections.admin import AccessLevel
from sluicegate.gateway.operations.interface import NodeInterface
from sluicegate.messaging.message.vpn import NAME_CHARS_MAX

JSON: Final = "application/json"

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Perform = Callable[[NodeInterface, Request], Awaitable[Response]]
JsonSchema = dict[str, object]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A query parameter that is a whole number."""

    name: str
    meaning: str
    low: int
    high: int
    default: int | None = None  # None: omitting it has a meaning of its own


@dataclass(frozen=True, slots=True)
class TextParameter:
    """A query parameter that is a text."""

    name: str
    meaning: str
    chars_max: int
    required: bool = False


@dataclass(frozen=True, slots=True)
class NamedSchema:
    """A schema under `components/schemas` that is not the schema of one type.

    `definitions` returns the schema by its name, with the schemas that it refers to. It is called when the document is
    requested, because it is slow.
    """

    name: str
    definitions: Callable[[], dict[str, JsonSchema]]


Described = type | NamedSchema  # a type is described by its own schema, under its own name


@dataclass(frozen=True, slots=True)
class Answer:
    """A possible response of an operation."""

    status: int
    meaning: str
    schema: Described | None = None  # None: no JSON
    media_type: str = JSON
    other_media_types: tuple[str, ...] = ()  # that the request may ask for


@dataclass(frozen=True, slots=True)
class Operation:
    """One method at one path, and the function that performs it."""

    id: str
    method: Method
    path: str
    summary: str
    answers: tuple[Answer, ...]
    perform: Perform
    parameters: tuple[Parameter | TextParameter, ...]
    body: Described | None
    of_vpn: bool  # it applies to one message VPN
    level: AccessLevel  # required, in that VPN or in the node
    body_media_types: tuple[str, ...] = (JSON,)


_PROBLEM: Final[JsonSchema] = {
    "type": "object",
    "description": "RFC 9457 problem details",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "field": {"type": "string", "description": "the invalid attribute"},
        "allowed": {"type": "string", "description": "its allowed values"},
    },
    "required": ["type", "title", "status", "detail"],
}
PROBLEM: Final = NamedSchema("Problem", lambda: {"Problem": _PROBLEM})

INVALID: Final = Answer(422, "An attribute is invalid; `field` names it, and `allowed` its allowed values", PROBLEM)
INVALID_PARAMETER: Final = Answer(422, "A parameter is invalid", PROBLEM)
REFUSED: Final = Answer(409, "The node refuses the request; `detail` gives the reason", PROBLEM)
NOT_READY: Final = Answer(503, "The node or replica starts; `detail` says what it waits for", PROBLEM)
TOO_SLOW: Final = Answer(408, "The body did not arrive in time", PROBLEM)
TOO_LARGE: Final = Answer(413, "The body is too large", PROBLEM)
NOT_JSON: Final = Answer(415, "The body is not application/json", PROBLEM)
UNREADABLE: Final = Answer(400, "The body is not a JSON object", PROBLEM)
NOT_SIGNED_IN: Final = Answer(401, "The credentials are missing or wrong", PROBLEM)
NOT_PERMITTED: Final = Answer(403, "The account's access level is too low; `detail` names the level needed", PROBLEM)
NO_VPN: Final = Answer(404, "No message VPN has that name", PROBLEM)
CHANGED_MEANWHILE: Final = Answer(412, "Its settings have not the `ETag` that `If-Match` names", PROBLEM)
BAD_BODY: Final = (UNREADABLE, TOO_SLOW, TOO_LARGE, NOT_JSON, INVALID)
VPN_PARAMETER: Final = TextParameter("vpn", "message VPN; default: `default`", NAME_CHARS_MAX)

OPEN: Final = frozenset({"/health/live", "/health/ready", "/health/active"})  # no account is needed
# For probes and scrapers: paths that reveal no message or client name, and change nothing.
PROBED: Final = OPEN | {"/metrics"}


class Operations:
    """The operations that one module declares, in the order of the module."""

    def __init__(self) -> None:
        self.all: list[Operation] = []

    def operation(
        self,
        method: Method,
        path: str,
        *answers: Answer,
        parameters: tuple[Parameter | TextParameter, ...] = (),
        body: Described | None = None,
        of_vpn: bool = True,
        level: AccessLevel | None = None,
        name: str = "",
        summary: str = "",
        body_media_types: tuple[str, ...] = (JSON,),
    ) -> Callable[[Perform], Perform]:
        """Declare the operation that a function performs. The function's name is its id, the docstring its summary.

        Without a `level`, GET needs read-only and every other method read-write. Responses that follow from the path
        and from `of_vpn` are added. `name` and `summary` are for functions that are defined in a loop.
        """

        def declare(perform: Perform) -> Perform:
            needed = level
            if needed is None:
                needed = AccessLevel.READ_ONLY if method == "GET" else AccessLevel.READ_WRITE
            more = [] if path in OPEN else [NOT_SIGNED_IN, NOT_PERMITTED]
            more += [NO_VPN, INVALID_PARAMETER] if of_vpn else []
            more += [CHANGED_MEANWHILE] if path in SETTINGS and method in CHANGES else []
            statuses = {answer.status for answer in answers}
            self.all.append(
                Operation(
                    id=name or perform.__name__,
                    method=method,
                    path=path,
                    summary=summary or " ".join((perform.__doc__ or "").split()).rstrip("."),
                    answers=(*answers, *(each for each in more if each.status not in statuses)),
                    perform=perform,
                    parameters=(*parameters, VPN_PARAMETER) if of_vpn else parameters,
                    body=body,
                    of_vpn=of_vpn,
                    level=needed,
                    body_media_types=body_media_types,
                )
            )
            return perform

        return declare
