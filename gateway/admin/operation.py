"""What an operation of the admin port is made of: a method at a path, its parameters, and the ways it can end."""

from dataclasses import dataclass
from typing import Final, Literal

from sluicegate.gateway.config.sections.security.access_levels import AccessLevel
from sluicegate.messaging.message.vpn import NAME_CHARS_MAX

JSON: Final = "application/json"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A query parameter that is a whole number."""

    name: str
    meaning: str
    low: int
    high: int
    default: int | None = None  # None: absent has a meaning of its own


@dataclass(frozen=True, slots=True)
class TextParameter:
    """A query parameter that is a text."""

    name: str
    meaning: str
    chars_max: int
    required: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """A way an operation can end."""

    status: int
    meaning: str
    schema: str | None = None  # name under `components/schemas`; None: no JSON
    media_type: str = JSON


@dataclass(frozen=True, slots=True)
class Operation:
    """One method at one path. `id` is the name of the method of `AdminApi` that performs it."""

    id: str
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str
    summary: str
    answers: tuple[Answer, ...]
    parameters: tuple[Parameter | TextParameter, ...] = ()
    body: str | None = None  # schema name
    of_vpn: bool = False  # it is about what belongs to one message VPN
    level: AccessLevel = AccessLevel.ADMIN  # that it asks for, in that VPN or in the node


INVALID: Final = Answer(422, "An attribute is not allowed; `field` and `allowed` say which and what is", "Problem")
INVALID_PARAMETER: Final = Answer(422, "A parameter is not allowed", "Problem")
REFUSED: Final = Answer(409, "The node will not do that now; `detail` says why", "Problem")
TOO_SLOW: Final = Answer(408, "The body does not come to its end in time", "Problem")
TOO_LARGE: Final = Answer(413, "The body is too large", "Problem")
NOT_JSON: Final = Answer(415, "The body is not application/json", "Problem")
UNREADABLE: Final = Answer(400, "The body is not a JSON object", "Problem")
NOT_SIGNED_IN: Final = Answer(401, "There are accounts, and this is none of them", "Problem")
NOT_PERMITTED: Final = Answer(403, "The account's access level is too low; `detail` says which it takes", "Problem")
BAD_BODY: Final = (UNREADABLE, TOO_SLOW, TOO_LARGE, NOT_JSON, INVALID)
VPN_PARAMETER: Final = TextParameter("vpn", "message VPN; without it, `default`", NAME_CHARS_MAX)
