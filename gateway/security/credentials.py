"""Read the credentials in the files that a configuration names: passwords and hashes, token keys, certificates.

All files are read before any is in force, so an unusable one changes nothing. `gateway.security.accounts` uses the
credentials of clients, `gateway.security.operators` those of operators.
"""

import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluicegate.gateway.config.model import Config
from sluicegate.gateway.config.sections.security.authentication import Account
from sluicegate.gateway.config.sections.security.oauth import OAuth
from sluicegate.protocols.transport.listeners import BaseListener

if TYPE_CHECKING:
    from sluicegate.protocols.security.bearer_tokens import TokenVerifier


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
    if oauth.jwks_file is None:
        return None
    from sluicegate.protocols.security.bearer_tokens import (  # late: its libraries are a tenth of a start
        TokenVerifier,
        read_keys,
    )

    return TokenVerifier(
        read_keys(oauth.keys_text()),
        issuer=oauth.issuer,
        audience=oauth.audience,
        user_claim=oauth.user_claim,
        wall_ms=wall_ms,
    )
