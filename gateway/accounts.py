"""Who may connect, and as what, as the configuration says: one authenticator and one set of profiles for all."""

from collections.abc import Callable
from random import Random

from gateway.config import Config
from gateway.config.oauth import OAuth
from messaging.deliver_to_one import priority_of
from protocols import scram
from protocols.authentication import Authenticator, Mechanism
from protocols.bearer_tokens import TokenVerifier, read_keys
from protocols.client_profiles import DEFAULT_PROFILE, ClientProfile, ClientProfiles
from protocols.oauth import OAUTHBEARER, XOAUTH2, OAuthMechanism


def make_authenticator(config: Config, rng: Random, wall_ms: Callable[[], int]) -> Authenticator:
    """Return the authenticator of a configuration. `wall_ms` is the time by which tokens are valid or not."""
    authentication = config.authentication
    secrets = {user.name: user.secret() for user in authentication.users}
    anonymous = [
        name
        for name, listener in config.listeners.enabled().items()
        if authentication.anonymous_allowed_on(listener.host)
    ]
    mechanisms: dict[str, Mechanism] = {scram.NAME: scram.ScramSha256(secrets, rng.randbytes)}
    verifier = _token_verifier(authentication.oauth, wall_ms)
    if verifier is not None:
        mechanisms |= {name: OAuthMechanism(name, verifier) for name in (OAUTHBEARER, XOAUTH2)}
    return Authenticator(
        secrets=secrets,
        anonymous_listeners=frozenset(anonymous),
        mechanisms=mechanisms,
        scram_matches=scram.password_matches,
        token_principal=None if verifier is None else verifier.principal,
        tokens_as_passwords=authentication.oauth.token_as_password,
    )


def make_profiles(config: Config) -> ClientProfiles:
    """Return the client profiles of a configuration."""
    authentication = config.authentication
    profiles = {
        each.name: ClientProfile(
            each.name, priority_of(each.dto_local_priority), each.allow_shared_subscriptions_enabled
        )
        for each in authentication.client_profiles
    }
    default = profiles.setdefault(DEFAULT_PROFILE, ClientProfile())
    return ClientProfiles({user.name: profiles[user.client_profile] for user in authentication.users}, default)


def _token_verifier(oauth: OAuth, wall_ms: Callable[[], int]) -> TokenVerifier | None:
    if oauth.jwks_file is None:
        return None
    return TokenVerifier(
        read_keys(oauth.keys_text()),
        issuer=oauth.issuer,
        audience=oauth.audience,
        user_claim=oauth.user_claim,
        wall_ms=wall_ms,
    )
