"""The accounts by which clients connect to a message VPN: configured ones, and those that operators created.

Operators create accounts by `gateway.provisioning.users`.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from sluicegate.actors.runtime.events import Events
from sluicegate.actors.runtime.runtime import Runtime
from sluicegate.gateway.config.sections.listeners import Listeners, TlsListener
from sluicegate.gateway.config.sections.message_vpns.message_vpns import MessageVpn
from sluicegate.gateway.config.sections.security.authentication import Authentication
from sluicegate.gateway.config.sections.security.client_profiles import AclProfileSettings, ClientProfileSettings
from sluicegate.gateway.provisioning.stored_users import StoredUser
from sluicegate.gateway.security.credentials import ConfiguredCredentials
from sluicegate.messaging.clients import rights
from sluicegate.messaging.clients.limits import VpnQuota
from sluicegate.messaging.clients.roster import ClientRoster, ClientUsername
from sluicegate.messaging.observability.events import (
    CLIENT_BIND_FAILED,
    CLIENT_CONNECT_FAILED,
    CLIENT_PAYLOAD_INVALID,
    CLIENT_PERMISSION_DENIED,
    CLIENT_PUBLISH_DENIED,
    CLIENT_SUBSCRIBE_DENIED,
    NOBODY,
    EventKind,
)
from sluicegate.messaging.routing.routes import TopicSpace
from sluicegate.protocols.security import scram
from sluicegate.protocols.security.account_secrets import AccountSecrets, scram_of
from sluicegate.protocols.security.authentication import Authenticator, Credentials, Mechanism
from sluicegate.protocols.security.login_attempts import LoginAttempts
from sluicegate.protocols.security.oauth import OAUTH_METHODS, OAuthMechanism
from sluicegate.protocols.security.password_checks import PasswordChecks

# What a client was denied becomes an event, and so a line of the audit log. `messaging.clients.rights` counts denials;
# `actors.publishing.event_log` decides which events are written where.
EVENTS_OF_DENIALS: Final[dict[str, EventKind]] = {
    rights.NOT_AUTHENTICATED: CLIENT_CONNECT_FAILED,
    rights.FOREIGN_ORIGIN: CLIENT_CONNECT_FAILED,
    rights.FOREIGN_HOST: CLIENT_CONNECT_FAILED,
    rights.VPN_UNKNOWN: CLIENT_CONNECT_FAILED,
    rights.VPN_DOWN: CLIENT_CONNECT_FAILED,
    rights.CONNECT_ACL: CLIENT_CONNECT_FAILED,
    rights.USERNAME_SHUT_DOWN: CLIENT_CONNECT_FAILED,
    rights.TOO_MANY_CONNECTIONS: CLIENT_CONNECT_FAILED,
    rights.SESSION_OF_ANOTHER: CLIENT_CONNECT_FAILED,
    rights.SESSION_COUNT: CLIENT_CONNECT_FAILED,
    rights.SESSION_BYTES: CLIENT_CONNECT_FAILED,
    rights.UNRELEASED: CLIENT_PUBLISH_DENIED,
    rights.PUBLISH_ACL: CLIENT_PUBLISH_DENIED,
    rights.GUARANTEED_SEND: CLIENT_PUBLISH_DENIED,
    rights.PAYLOAD_INVALID: CLIENT_PAYLOAD_INVALID,
    rights.SUBSCRIBE_ACL: CLIENT_SUBSCRIBE_DENIED,
    rights.SHARE_NAME_ACL: CLIENT_SUBSCRIBE_DENIED,
    rights.SHARED_SUBSCRIPTIONS: CLIENT_SUBSCRIBE_DENIED,
    rights.SUBSCRIPTION_COUNT: CLIENT_SUBSCRIBE_DENIED,
    rights.GUARANTEED_RECEIVE: CLIENT_BIND_FAILED,
    rights.EGRESS_FLOWS: CLIENT_BIND_FAILED,
    rights.PUBLISHER_OF_ANOTHER: CLIENT_PERMISSION_DENIED,
    rights.TRANSACTION_OF_ANOTHER: CLIENT_PERMISSION_DENIED,
    rights.INGRESS_FLOWS: CLIENT_PERMISSION_DENIED,
    rights.ENDPOINT_CREATE: CLIENT_PERMISSION_DENIED,
    rights.ENDPOINT_COUNT: CLIENT_PERMISSION_DENIED,
    rights.TRANSACTIONS: CLIENT_PERMISSION_DENIED,
}


class Accounts:
    """The accounts of one message VPN, and its authenticator, which always has their latest state.

    `attempts` and `checks` outlive it. A configured account takes precedence over a created one of the same name.
    """

    def __init__(
        self,
        authentication: Authentication,
        credentials: ConfiguredCredentials,
        listeners: Listeners,
        runtime: Runtime,
        attempts: LoginAttempts,
        checks: PasswordChecks,
        made: Mapping[str, StoredUser],
    ) -> None:
        self._authentication = authentication
        self._configured = credentials
        self._listeners = listeners
        self._provisioned = made
        self._secrets = AccountSecrets({})  # of all accounts
        self._scram = scram.Scram({}, authentication.scram_iterations, runtime.rng.randbytes)
        self._scram_512 = scram.Scram({}, authentication.scram_iterations, runtime.rng.randbytes, scram.NAME_512)
        self.authenticator = Authenticator(
            credentials=self._credentials(),
            scram_matches=scram.password_matches,
            attempts=attempts,
            checks=checks,
            clock=runtime.clock,
            wait=runtime.sleep,
            random_bytes=runtime.rng.randbytes,
        )

    def admits_nobody_on(self, name: str) -> bool:
        """Return whether no client can log in on a listener: it requires an account, and there is none."""
        listener = self._listeners.enabled()[name]
        has_certificates = isinstance(listener, TlsListener) and listener.client_ca is not None
        has_accounts = (
            len(self._secrets) > 0 or self._configured.verifier is not None or has_certificates or self.has_backend()
        )
        return not has_accounts and not self.authenticator.admits_anonymous(name)

    def has_backend(self) -> bool:
        """Return whether a backend decides about names that are no accounts."""
        return self.authenticator.external is not None and self.authenticator.external.is_asked

    def configure(self, authentication: Authentication, credentials: ConfiguredCredentials) -> None:
        """Put a configuration in force, with the credentials read from its files."""
        self._authentication = authentication
        self._configured = credentials
        self.authenticator.credentials = self._credentials()

    def kinds_beside(self, name: str) -> Collection[str]:
        """Return the kinds of hashes that the accounts of other names have."""
        return self._secrets.kinds_beside(name)

    def user_changed(self, name: str) -> None:
        """Put in force the change of an account that operators created."""
        if name in self._configured.secrets:
            return
        user = self._provisioned.get(name)
        for each in (self._scram, self._scram_512):
            keys = "" if user is None else user.scram_secret()
            each.change(name, keys if scram_of(keys) == each.name else None)
        if user is None:
            self._secrets.drop(name)
        else:
            self._secrets.put(name, user.password_hash)

    def _credentials(self) -> Credentials:
        authentication, configured = self._authentication, self._configured
        anonymous = [
            name
            for name, listener in self._listeners.enabled().items()
            if authentication.anonymous_allowed_on(listener.host)
        ]
        made_scram = {name: keys for name, user in self._provisioned.items() if (keys := user.scram_secret())}
        secrets = made_scram | configured.secrets
        mechanisms: dict[str, Mechanism] = {scram.NAME: self._scram, scram.NAME_512: self._scram_512}
        for each in (self._scram, self._scram_512):
            each.configure(secrets, authentication.scram_iterations)
        if configured.verifier is not None:
            mechanisms |= {name: OAuthMechanism(name, configured.verifier) for name in OAUTH_METHODS}
        made = {name: user.password_hash for name, user in self._provisioned.items()}
        self._secrets = AccountSecrets(made | configured.secrets)
        return Credentials(
            secrets=self._secrets,
            anonymous_listeners=frozenset(anonymous),
            mechanisms=mechanisms,
            token_principal=None if configured.verifier is None else configured.verifier.principal,
            tokens_as_passwords=configured.tokens_as_passwords,
        )


def make_roster(vpn: str, space: TopicSpace, events: Events) -> ClientRoster:
    """Return the roster of a message VPN, not configured yet. Its denials become events."""
    roster = ClientRoster(vpn, VpnQuota(space))
    _report_denials(roster, events)
    return roster


def _report_denials(roster: ClientRoster, events: Events) -> None:
    """Emit an event for every denial from now on."""

    def report(reason: str, client: str, text: str) -> None:
        events.emit(EVENTS_OF_DENIALS[reason], text, client=client or NOBODY)

    def report_unfit(client: str, text: str) -> None:
        events.emit(CLIENT_PAYLOAD_INVALID, text, client=client or NOBODY)

    roster.denials.listener = report
    roster.denials.unfit_listener = report_unfit


def configure_roster(
    roster: ClientRoster,
    settings: MessageVpn,
    usernames: Iterable[ClientUsername],
    client_profiles: Iterable[ClientProfileSettings],
    acl_profiles: Iterable[AclProfileSettings],
) -> None:
    """Put quotas, accounts and profiles in force in a roster, for connected clients as well."""
    roster.quota.connection_count_max = settings.max_connection_count
    roster.quota.endpoint_count_max = settings.max_endpoint_count
    roster.quota.subscription_count_max = settings.max_subscription_count
    roster.quota.subscription_bytes_max = settings.subscription_bytes_max
    roster.quota.session_count_max = settings.max_mqtt_session_count
    roster.quota.session_bytes_max = settings.session_bytes_max
    roster.configure(
        list(usernames),
        [each.profile() for each in client_profiles],
        [each.profile() for each in acl_profiles],
    )
