"""The section of REST delivery points. Names and defaults are Solace's; numbers have their unit in the name."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from sluicegate.gateway.config.sections.section import NamedSection, Section
from sluicegate.protocols.rest.targets import Target, TargetInvalid, parse_target

STATUS_MIN: Final = 100
STATUS_MAX: Final = 599
_TOKEN: Final = r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"  # the name of a header (RFC 9110 5.6.2)
_TOKEN_OR_NONE: Final = r"^[!#$%&'*+.^_`|~0-9A-Za-z-]*$"
_VALUE: Final = r"^[\x20-\x7e]*$"

HeaderName = Annotated[str, Field(pattern=_TOKEN, max_length=255)]
HeaderValue = Annotated[str, Field(pattern=_VALUE, max_length=4096)]


def status_codes(text: str) -> frozenset[int]:
    """Return the codes of a list such as `400-407,422`. Raises ValueError."""
    codes: set[int] = set()
    for part in text.split(",") if text.strip() else []:
        first, dash, last = part.strip().partition("-")
        ends = [first, last] if dash else [first]
        if not all(each.isascii() and each.isdigit() and STATUS_MIN <= int(each) <= STATUS_MAX for each in ends):
            raise ValueError(
                f"{part.strip()!r:.80} is not a status code or range of codes; allowed: {STATUS_MIN} to 599"
            )
        codes.update(range(int(ends[0]), int(ends[-1]) + 1))
    return frozenset(codes)


def _codes_checked(text: str) -> str:
    status_codes(text)
    return text


class QueueBinding(Section):
    """A queue whose messages are pushed, and the path they go to."""

    queue: str = Field(min_length=1, max_length=200)
    post_request_target: str = Field(min_length=1, max_length=8000)
    request_target_evaluation: Literal["none", "substitution-expressions"] = "none"
    request_headers: dict[HeaderName, HeaderValue] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_target(self) -> Self:
        try:
            self.target()
        except TargetInvalid as invalid:
            raise ValueError(f"post_request_target: {invalid}") from None
        return self

    def target(self) -> Target:
        """Return the request target."""
        return parse_target(self.post_request_target, evaluates=self.request_target_evaluation != "none")


class RestConsumer(Section):
    """A web server that messages are pushed to."""

    name: str = Field(min_length=1, max_length=32, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    enabled: bool = True
    remote_host: str = Field(min_length=1, max_length=253, pattern=r"^[A-Za-z0-9._:-]+$")
    remote_port: int = Field(default=8080, ge=1, le=65535)
    http_method: Literal["post", "put"] = "post"
    outgoing_connection_count: int = Field(default=3, ge=1, le=50)
    max_post_wait_time_s: int = Field(default=30, ge=1, le=300)
    retry_delay_s: int = Field(default=3, ge=1, le=300)
    rejected_status_codes: Annotated[str, AfterValidator(_codes_checked)] = ""
    tls_enabled: bool = False
    tls_authorities_file: Path | None = None
    authentication_scheme: Literal["none", "http-basic", "http-header", "client-certificate"] = "none"
    authentication_http_basic_username: str = Field(default="", max_length=255)
    authentication_http_basic_password_file: Path | None = None
    authentication_http_header_name: str = Field(default="", max_length=255, pattern=_TOKEN_OR_NONE)
    authentication_http_header_value_file: Path | None = None
    authentication_client_certificate_file: Path | None = None
    authentication_client_certificate_key_file: Path | None = None

    @model_validator(mode="after")
    def _check_scheme(self) -> Self:
        needed: dict[str, tuple[str, ...]] = {
            "http-basic": ("authentication_http_basic_username", "authentication_http_basic_password_file"),
            "http-header": ("authentication_http_header_name", "authentication_http_header_value_file"),
            "client-certificate": (
                "authentication_client_certificate_file",
                "authentication_client_certificate_key_file",
            ),
        }
        for name in needed.get(self.authentication_scheme, ()):
            if not getattr(self, name):
                raise ValueError(f"authentication_scheme {self.authentication_scheme} needs {name}")
        if self.authentication_scheme == "client-certificate" and not self.tls_enabled:
            raise ValueError("authentication_scheme client-certificate needs tls_enabled")
        return self

    def names_a_file(self) -> bool:
        """Return whether it names a file."""
        return any(isinstance(value, Path) for _, value in self)


class RestDeliveryPoint(NamedSection):
    """Queues and the web servers that their messages go to."""

    name: str = Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    enabled: bool = True
    queue_bindings: tuple[QueueBinding, ...] = ()
    rest_consumers: tuple[RestConsumer, ...] = ()

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        for kind, names in (
            ("queue_bindings", [each.queue for each in self.queue_bindings]),
            ("rest_consumers", [each.name for each in self.rest_consumers]),
        ):
            for name in names:
                if names.count(name) > 1:
                    raise ValueError(f"{kind}: {name!r} appears {names.count(name)} times")
        return self


def _check_names(points: tuple[RestDeliveryPoint, ...]) -> tuple[RestDeliveryPoint, ...]:
    names = [each.name for each in points]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"the name {name!r} appears {names.count(name)} times")
    return points


RestDeliveryPoints = Annotated[tuple[RestDeliveryPoint, ...], AfterValidator(_check_names)]  # of one message VPN


def names_files(values: Mapping[str, object]) -> bool:
    """Return whether the description of a delivery point, or of changes of one, names files of the node."""
    consumers = values.get("rest_consumers")
    given = [each for each in consumers if isinstance(each, Mapping)] if isinstance(consumers, list | tuple) else []
    return any(str(key).endswith("_file") and value is not None for each in given for key, value in each.items())
