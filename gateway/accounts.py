"""Who may connect, and as what, as the configuration says: an authenticator and a roster for each message VPN."""

from collections.abc import Callable

from actors.events import Events
from actors.futures import LoopFuture
from actors.runtime import Runtime
from gateway.audit import tell_denials
from gateway.config import Authentication, Listeners
from gateway.config.message_vpns import MessageVpn
from gateway.config.oauth import OAuth
from messaging.client_roster import ClientRoster
from messaging.routing import TopicSpace
from messaging.vpn_quota import VpnQuota
from protocols import scram
from protocols.authentication import Authenticator, Mechanism
from protocols.bearer_tokens import TokenVerifier, read_keys
from protocols.login_attempts import LoginAttempts
from protocols.oauth import OAUTHBEARER, XOAUTH2, OAuthMechanism


def make_authenticator(
    authentication: Authentication, listeners: Listeners, runtime: Runtime, attempts: LoginAttempts
) -> Authenticator:
    """Return the authenticator of a message VPN. `attempts` outlives it."""
    secrets = {user.name: user.secret() for user in authentication.users}
    anonymous = [
        name for name, listener in listeners.enabled().items() if authentication.anonymous_allowed_on(listener.host)
    ]
    mechanisms: dict[str, Mechanism] = {scram.NAME: scram.ScramSha256(secrets, runtime.rng.randbytes)}
    verifier = _token_verifier(authentication.oauth, runtime.clock.wall_ms)
    if verifier is not None:
        mechanisms |= {name: OAuthMechanism(name, verifier) for name in (OAUTHBEARER, XOAUTH2)}
    return Authenticator(
        secrets=secrets,
        anonymous_listeners=frozenset(anonymous),
        mechanisms=mechanisms,
        scram_matches=scram.password_matches,
        token_principal=None if verifier is None else verifier.principal,
        tokens_as_passwords=authentication.oauth.token_as_password,
        attempts=attempts,
        clock=runtime.clock,
        wait=lambda wait_ms: _wait(runtime, wait_ms),
    )


async def _wait(runtime: Runtime, wait_ms: int) -> None:
    done: LoopFuture[None] = LoopFuture()
    runtime.after(wait_ms, lambda: done.set(None))
    await done


def make_roster(vpn: str, settings: MessageVpn, space: TopicSpace, events: Events) -> ClientRoster:
    """Return the roster of a message VPN. What it denies becomes events."""
    roster = ClientRoster(vpn, VpnQuota(space))
    configure_roster(roster, settings)
    tell_denials(roster, events)
    return roster


def configure_roster(roster: ClientRoster, settings: MessageVpn) -> None:
    """Have the roster go by a configuration, for those who are connected as well."""
    authentication = settings.authentication
    roster.is_up = settings.enabled
    roster.quota.connection_count_max = settings.max_connection_count
    roster.quota.endpoint_count_max = settings.max_endpoint_count
    roster.quota.subscription_count_max = settings.max_subscription_count
    roster.configure(
        [user.username() for user in authentication.users],
        [each.profile() for each in authentication.client_profiles],
        [each.profile() for each in authentication.acl_profiles],
    )


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
