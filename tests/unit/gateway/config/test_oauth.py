"""authentication.oauth: what a node refuses to start with, and what it makes of the rest."""

from pathlib import Path

import pytest

from sluicegate.actors.runtime.runtime import Runtime
from sluicegate.gateway.config.document import ConfigError
from sluicegate.gateway.config.load import load
from sluicegate.gateway.security.accounts import Accounts
from sluicegate.gateway.security.credentials import read_credentials
from sluicegate.protocols.security.login_attempts import LoginAttempts
from sluicegate.protocols.security.password_checks import PasswordChecks
from support.network.tokens import TokenServer


@pytest.fixture
def server(tmp_path: Path) -> TokenServer:
    return TokenServer(tmp_path)


def test_a_key_set_brings_the_mechanisms_of_tokens(server: TokenServer, runtime: Runtime) -> None:
    def mechanisms(*settings: str) -> list[str]:
        config = load(settings=settings)
        authentication = config.authentication
        proofs = read_credentials(authentication.users, authentication.oauth, runtime.clock.wall_ms)
        checks = PasswordChecks(memory_bytes_max=config.limits.login_memory_bytes_max, clock=runtime.clock)
        accounts = Accounts(authentication, proofs, config.listeners, runtime, LoginAttempts(), checks, {})
        return sorted(accounts.authenticator.mechanisms)

    assert mechanisms() == []
    assert mechanisms(*server.settings) == ["OAUTH2-JWT", "OAUTHBEARER", "XOAUTH2"]


def test_missing_settings_are_named(server: TokenServer, tmp_path: Path) -> None:
    empty = tmp_path / "empty.json"
    empty.write_text("{}")
    keys, issuer, audience = server.settings
    broken = {
        "issuer is required": (keys, audience),
        "audience is required": (keys, issuer),
        "token_as_password needs jwks_file": ("authentication.oauth.token_as_password=true",),
        "No such file": ("authentication.oauth.jwks_file=/nowhere", issuer, audience),
        "no key set": (f"authentication.oauth.jwks_file={empty}", issuer, audience),
    }
    for why, settings in broken.items():
        with pytest.raises(ConfigError, match=why):
            load(settings=settings)
