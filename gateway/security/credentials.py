"""Read the credentials in the files that a configuration names: passwords and hashes, token keys, certificates.

All files are read before any is in force, so an unusable one changes nothing. `gateway.security.accounts` uses the
credentials of clients, `gateway.security.operators` those of operators.

An expired certificate is still presented, and clients refuse it: `check_certificates` warns before.
"""

import logging
import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from sluicegate.gateway.config.model import Config
from sluicegate.gateway.config.sections.security.authentication import Account, OAuth
from sluicegate.protocols.transport.listeners import BaseListener

if TYPE_CHECKING:
    from sluicegate.protocols.security.tokens.bearer_tokens import TokenVerifier


log = logging.getLogger("sluicegate.node")

SOON_S: Final = 14 * 86_400  # warn of a certificate at most so long before it expires
SOON_SHARE: Final = 0.1  # of its lifetime, for certificates valid for a few days


@dataclass(frozen=True, slots=True)
class ConfiguredCredentials:
    """The credentials of one set of accounts, as read at one moment."""

    secrets: dict[str, str]  # hashes and plain passwords, by the account's name
    verifier: "TokenVerifier | None"  # None: tokens are not accepted
    tokens_as_passwords: bool


@dataclass(frozen=True, slots=True)
class Secrets:
    """All credentials and certificates of a node, as read at one moment."""

    operators: ConfiguredCredentials
    clients: dict[str, ConfiguredCredentials]  # by message VPN
    certificates: list[tuple[BaseListener, ssl.SSLContext | None]]  # of each listener; None: it has no TLS


def read_secrets(
    config: Config, vpns: Iterable[str], listeners: Iterable[BaseListener], wall_ms: Callable[[], int]
) -> Secrets:
    """Read the files of a configuration, for these message VPNs and listeners. Raises OSError and ValueError."""
    sections = {name: config.message_vpn(name).authentication for name in vpns}
    return Secrets(
        operators=read_credentials(config.admin.users, config.admin.oauth, wall_ms),
        clients={name: read_credentials(each.users, each.oauth, wall_ms) for name, each in sections.items()},
        certificates=[(listener, listener.read_tls()) for listener in listeners],
    )


def read_credentials(accounts: Iterable[Account], oauth: OAuth, wall_ms: Callable[[], int]) -> ConfiguredCredentials:
    """Read the credentials that accounts and tokens are checked with. Raises OSError and ValueError."""
    secrets = {account.name: account.secret() for account in accounts if account.has_secret()}
    return ConfiguredCredentials(secrets, _verifier(oauth, wall_ms), oauth.token_as_password)


def _verifier(oauth: OAuth, wall_ms: Callable[[], int]) -> "TokenVerifier | None":
    if not oauth.takes_tokens():
        return None
    from sluicegate.protocols.security.tokens.bearer_tokens import (  # late: its libraries are a tenth of a start
        TokenVerifier,
        read_keys,
    )
    from sluicegate.protocols.security.tokens.token_keys import TokenKeys

    return TokenVerifier(
        TokenKeys(None if oauth.jwks_file is None else read_keys(oauth.keys_text())),
        issuer=oauth.issuer,
        audience=oauth.audience,
        user_claim=oauth.user_claim,
        wall_ms=wall_ms,
    )


# --- the validity of the certificates of TLS ports ---


class Validity(NamedTuple):
    """The period in which a certificate is valid, in seconds since the epoch."""

    begins_s: float
    ends_s: float

    def problem(self, now_s: float) -> str:
        """Return why clients refuse it, or that it expires soon; empty if neither."""
        if now_s < self.begins_s:
            return f"is not valid before {_utc(self.begins_s)}, and clients refuse it"
        if now_s >= self.ends_s:
            return f"expired at {_utc(self.ends_s)}, and clients refuse it"
        if self.ends_s - now_s < min(SOON_S, SOON_SHARE * (self.ends_s - self.begins_s)):
            return f"expires at {_utc(self.ends_s)}"
        return ""


def validity_of(certificate: Path) -> Validity | None:
    """Return the validity of the first certificate in a PEM file that TLS loaded; None if it cannot be read now."""
    from cryptography import x509  # late: a node without TLS ports starts without it

    try:
        first = x509.load_pem_x509_certificate(certificate.read_bytes())
    except (OSError, ValueError):
        return None
    return Validity(first.not_valid_before_utc.timestamp(), first.not_valid_after_utc.timestamp())


def check_certificates(listeners: Iterable[BaseListener], *, now_s: float) -> dict[str, Validity]:
    """Return the validity of the certificate of each TLS listener, by its name. Problems are logged."""
    found: dict[str, Validity] = {}
    for listener in listeners:
        validity = None if listener.certificate is None else validity_of(listener.certificate)
        if validity is not None:
            found[listener.name] = validity
            if problem := validity.problem(now_s):
                log.warning("%s: certificate %s %s", listener.name, listener.certificate, problem)
    return found


def _utc(moment_s: float) -> str:
    return datetime.fromtimestamp(moment_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
