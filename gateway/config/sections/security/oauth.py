"""Tokens of an authorization server: which issuer and audience are accepted, and the keys that verify them."""

from pathlib import Path
from typing import Final, Self

from pydantic import Field, model_validator

from sluicegate.gateway.config.sections.section import Section

KEYS_FILE_BYTES_MAX: Final = 1 << 20  # of some hundred keys; a server has two or three


class OAuth(Section):
    """OAuth 2: clients show a token that somebody else signed. Off unless there are keys."""

    jwks_file: Path | None = Field(
        default=None, description="JSON Web Key Set with the public keys of the authorization server; none: no OAuth"
    )
    issuer: str = Field(default="", max_length=1024, description="what a token's iss has to be")
    audience: str = Field(default="", max_length=1024, description="what a token's aud has to name")
    user_claim: str = Field(
        default="sub", min_length=1, max_length=255, description="claim of the token that is the user name"
    )
    token_as_password: bool = Field(
        default=False, description="take a token where clients send a password (MQTT's CONNECT, SASL PLAIN)"
    )

    @model_validator(mode="after")
    def _check_keys(self) -> Self:
        if self.jwks_file is None:
            if self.token_as_password:
                raise ValueError("token_as_password needs jwks_file")
            return self
        for name in ("issuer", "audience"):
            if not getattr(self, name):
                raise ValueError(f"{name} is required with jwks_file: else tokens for other services would be valid")
        from sluicegate.protocols.security.bearer_tokens import read_keys  # late: its libraries are a tenth of a start

        try:
            read_keys(self.keys_text())
        except (OSError, ValueError) as problem:
            text = problem.strerror if isinstance(problem, OSError) else problem
            raise ValueError(f"jwks_file {str(self.jwks_file)!r}: {text}") from None
        return self

    def keys_text(self) -> str:
        """Return the key set, read from its file. Raises OSError, ValueError."""
        assert self.jwks_file is not None, "the caller has seen that there is one"
        size = self.jwks_file.stat().st_size
        if size > KEYS_FILE_BYTES_MAX:
            raise ValueError(f"{size} bytes, more than {KEYS_FILE_BYTES_MAX}")
        return self.jwks_file.read_text(encoding="utf-8")
