"""Backends of authentication: who decides about clients that have no account here."""

from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from sluicegate.gateway.config.sections.section import Section
from sluicegate.gateway.config.sections.security.secret_files import first_line


class HttpHook(Section):
    """A web server that is asked about each login of a name that is no account here. Off without a URL."""

    url: str | None = Field(default=None, max_length=2048, description="http or https URL that logins are posted to")
    secret_file: Path | None = Field(
        default=None, description="file whose first line is sent along: Authorization: Bearer LINE"
    )
    timeout_ms: int = Field(default=2_000, ge=10, le=60_000, description="milliseconds until it has to answer")
    max_concurrent_requests: int = Field(
        default=32, ge=1, le=1_000, description="requests under way; further logins wait for their turn"
    )
    cache_s: int = Field(
        default=60, ge=0, le=86_400, description="seconds for which a yes holds for the same login; 0: ask each time"
    )

    @model_validator(mode="after")
    def _check_url(self) -> Self:
        if self.url is not None:
            parts = urlsplit(self.url)
            if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
                raise ValueError("url: allowed is an http or https URL with a host, and without a user in it")
        try:
            self.secret()
        except OSError as problem:
            raise ValueError(f"secret_file {str(self.secret_file)!r}: {problem.strerror}") from None
        return self

    def secret(self) -> str:
        """Return what is sent along, read from its file; empty without one. Raises OSError and ValueError."""
        return "" if self.secret_file is None else first_line(self.secret_file)
