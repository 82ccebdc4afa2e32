"""Who may connect to a message VPN, and as what: accounts of the configuration, and those that operators made.

How operators make some is in `gateway.users`.
"""

from collections.abc import Callable, Iterable, Mapping

from actors.events import Events
from actors.runtime import Runtime
from gateway.audit import tell_denials
from gateway.config import Authentication, Listeners
from gateway.config.message_vpns import MessageVpn
from gateway.config.oauth import OAuth
from gateway.stored_users import StoredUser
from messaging.client_roster import ClientRoster, ClientUsername
from messaging.routing import TopicSpace
from messaging.vpn_quota import VpnQuota
from protocols import scram
from protocols.authentication import Authenticator, Credentials, Mechanism
from protocols.bearer_tokens import TokenVerifier, read_keys
from protocols.login_attempts import LoginAttempts
from protocols.oauth import OAUTHBEARER, XOAUTH2, OAuthMechanism


class Accounts:
    """The accounts of one message VPN, and its authenticator, which knows them as they are now.

    `attempts` outlives it. Of two accounts of one name that of the configuration counts.
    """

    def __init__(
        self,
        authentication: Authentication,
        listeners: Listeners,
        runtime: Runtime,
        attempts: LoginAttempts,
        made: Mapping[str, StoredUser],
    ) -> None:
        self._listeners = listeners
        self._runtime = runtime
        self._made = made
        self._scram = scram.ScramSha256({}, runtime.rng.randbytes)
        self._read(authentication)
        self.authenticator = Authenticator(
            credentials=self._credentials(),
            scram_matches=scram.password_matches,
            attempts=attempts,
            clock=runtime.clock,
            wait=runtime.sleep,
        )

    def read_secrets(self, authentication: Authentication) -> None:
        """Go by this configuration and what its files say now. Raises OSError and ValueError; nothing changes then."""
        self._read(authentication)
        self.authenticator.credentials = self._credentials()

    def made_changed(self) -> None:
        """Go by what operators have made of their accounts."""
        self.authenticator.credentials = self._credentials()

    def _read(self, authentication: Authentication) -> None:
        secrets = {user.name: user.secret() for user in authentication.users}
        self._verifier = token_verifier(authentication.oauth, self._runtime.clock.wall_ms)
        self._secrets = secrets
        self._authentication = authentication

    def _credentials(self) -> Credentials:
        authentication, verifier = self._authentication, self._verifier
        anonymous = [
            name
            for name, listener in self._listeners.enabled().items()
            if authentication.anonymous_allowed_on(listener.host)
        ]
        self._scram.configure({name: user.scram for name, user in self._made.items()} | self._secrets)
        mechanisms: dict[str, Mechanism] = {scram.NAME: self._scram}
        if verifier is not None:
            mechanisms |= {name: OAuthMechanism(name, verifier) for name in (OAUTHBEARER, XOAUTH2)}
        return Credentials(
            secrets={name: user.password_hash for name, user in self._made.items()} | self._secrets,
            anonymous_listeners=frozenset(anonymous),
            mechanisms=mechanisms,
            token_principal=None if verifier is None else verifier.principal,
            tokens_as_passwords=authentication.oauth.token_as_password,
        )


def make_roster(
    vpn: str, settings: MessageVpn, usernames: Iterable[ClientUsername], space: TopicSpace, events: Events
) -> ClientRoster:
    """Return the roster of a message VPN. What it denies becomes events."""
    roster = ClientRoster(vpn, VpnQuota(space))
    configure_roster(roster, settings, usernames)
    tell_denials(roster, events)
    return roster


def configure_roster(roster: ClientRoster, settings: MessageVpn, usernames: Iterable[ClientUsername]) -> None:
    """Have the roster go by a configuration and by these accounts, for those who are connected as well."""
    authentication = settings.authentication
    roster.is_up = settings.enabled
    roster.quota.connection_count_max = settings.max_connection_count
    roster.quota.endpoint_count_max = settings.max_endpoint_count
    roster.quota.subscription_count_max = settings.max_subscription_count
    roster.configure(
        list(usernames),
        [each.profile() for each in authentication.client_profiles],
        [each.profile() for each in authentication.acl_profiles],
    )


def token_verifier(oauth: OAuth, wall_ms: Callable[[], int]) -> TokenVerifier | None:
    """Return what checks tokens by the keys in their file; None: there is no such file. Raises OSError, ValueError."""
    if oauth.jwks_file is None:
        return None
    return TokenVerifier(
        read_keys(oauth.keys_text()),
        issuer=oauth.issuer,
        audience=oauth.audience,
        user_claim=oauth.user_claim,
        wall_ms=wall_ms,
    )
