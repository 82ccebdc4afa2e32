"""The roster: which client usernames there are with which profiles, and who is connected under them.

It lies on the loop, as gates and budgets do: the node gives it the names, and each that changes; connections ask it
to be admitted and leave it when they end, the queue directory asks it before it makes a queue for a client. Who a
client is has been proven before, by `protocols.security.authentication`.

Invariants: the connections of a name and of a profile are counted exactly; what has no entry has the profiles of the
name `default`, which exist always.
"""

from dataclasses import dataclass
from typing import Final, final

from sluicegate.messaging.clients.acl_profile import AclProfile, permissive
from sluicegate.messaging.clients.client_profile import ClientProfile
from sluicegate.messaging.clients.rights import (
    CONNECT_ACL,
    ENDPOINT_COUNT,
    ENDPOINT_CREATE,
    TOO_MANY_CONNECTIONS,
    USERNAME_SHUT_DOWN,
    VPN_DOWN,
    ClientDenied,
    ClientRights,
    Denials,
)
from sluicegate.messaging.clients.vpn_quota import VpnQuota
from sluicegate.messaging.message.vpn import DEFAULT_VPN

DEFAULT: Final = "default"


@dataclass(frozen=True)
class ClientUsername:
    """A name under which clients connect, and what it stands for."""

    name: str
    enabled: bool = True
    client_profile: str = DEFAULT
    acl_profile: str = DEFAULT


_NO_ACCOUNT: Final = ClientUsername("")  # what every name stands for that has no entry


@final
class _Connected:
    """Who is connected under one username."""

    def __init__(self) -> None:
        self.rights: dict[ClientRights, bool] = {}  # of each connection, and whether another of its name takes it over
        self.counts: dict[str, int] = {}  # connections that are taken over, by client name


@final
class ClientRoster:
    """Everybody who is connected to a message VPN, and everybody who might be."""

    def __init__(self, vpn: str = DEFAULT_VPN, quota: VpnQuota | None = None) -> None:
        self.vpn = vpn  # whose clients these are
        self.quota = quota or VpnQuota()
        self.is_up = True  # the message VPN lets clients in
        self.denials = Denials()
        self.count = 0  # connections
        self._usernames: dict[str, ClientUsername] = {}
        self._profiles: dict[str, ClientProfile] = {DEFAULT: ClientProfile(name=DEFAULT)}
        self._acls: dict[str, AclProfile] = {DEFAULT: permissive(DEFAULT)}
        self._connected: dict[str, _Connected] = {}  # by username
        self._profile_counts: dict[str, int] = {}  # connections, by the profile they came in with

    def configure(self, usernames: list[ClientUsername], profiles: list[ClientProfile], acls: list[AclProfile]) -> None:
        """Go by these from now on, for those who are connected as well. Profiles that names refer to are among them.

        Whose name is gone keeps what it may do until it is sent away: strangers may do more, perhaps.
        """
        before, self._usernames = self._usernames, {each.name: each for each in usernames}
        self._profiles = {DEFAULT: ClientProfile(name=DEFAULT)} | {each.name: each for each in profiles}
        self._acls = {DEFAULT: permissive(DEFAULT)} | {each.name: each for each in acls}
        for user in self._connected:
            if user in self._usernames or user not in before:
                self._renew(user)

    def set_username(self, name: str, username: ClientUsername | None) -> bool:
        """Go by another account of this name, None: by none. Its profiles are there, and others' connections as before.

        Return whether it was let in, and is no more. One that is gone is as in `configure`.
        """
        before = self._usernames.pop(name, None)
        if username is not None:
            self._usernames[name] = username
            self._renew(name)
        return before is not None and before.enabled and (username is None or not username.enabled)

    def set_client_profile(self, name: str, profile: ClientProfile | None) -> None:
        """Go by another client profile of this name, for who is connected with it as well. None: nobody has it."""
        if profile is None:
            self._profiles.pop(name, None)
            return
        self._profiles[name] = profile
        for user in self._connected:
            if self._username(user).client_profile == name:
                self._renew(user)

    def set_acl_profile(self, name: str, acl: AclProfile | None) -> None:
        """Go by another ACL profile of this name, for who is connected with it as well. None: nobody has it."""
        if acl is None:
            self._acls.pop(name, None)
            return
        self._acls[name] = acl
        for user in self._connected:
            if self._username(user).acl_profile == name:
                self._renew(user)

    def admit(self, user: str, client: str, host: str, now_ms: int, *, takes_over: bool = False) -> ClientRights:
        """Let a client in, who has proven to be this user; empty: anonymous. `leave` lets it go. Raises ClientDenied.

        `host` is the address it comes from. With `takes_over` it ends the connection of the same client name that came
        with it, too, so that one does not count.
        """
        if not self.is_up:
            self._refuse(VPN_DOWN, client, f"503 Message VPN Unavailable: {self.vpn!r} is shut down")
        username = self._username(user)
        profile = self._profiles[username.client_profile]
        acl = self._acls[username.acl_profile]
        if not username.enabled:
            self._refuse(USERNAME_SHUT_DOWN, client, f"403 Client Username Is Shutdown: {user!r}")
        if not acl.connect.allows(host):
            self._refuse(CONNECT_ACL, client, f"403 Forbidden: user {user!r} may not connect from {host}")
        connected = self._connected.get(user)
        its_count = 0 if connected is None else connected.counts.get(client, 0)
        ends = 1 if takes_over and its_count > 0 else 0
        count_max = profile.max_connection_count_per_client_username
        if self.connected_count(user) - ends >= count_max:
            text = f"503 Too Many Clients: user {user!r} has the {count_max} connections that its profile allows"
            self._refuse(TOO_MANY_CONNECTIONS, client, text)
        if self.count - ends >= self.quota.connection_count_max:
            text = f"503 Too Many Clients: message VPN {self.vpn!r} has the {self.count} connections that it may have"
            self._refuse(TOO_MANY_CONNECTIONS, client, text)
        count = self._profile_counts.get(profile.name, 0)
        if count - ends >= profile.max_connection_count:
            text = f"503 Too Many Clients: profile {profile.name!r} allows {profile.max_connection_count} connections"
            self._refuse(TOO_MANY_CONNECTIONS, client, text)
        rights = ClientRights(
            user=user,
            client=client,
            profile=profile,
            acl=acl,
            denials=self.denials,
            now_ms=now_ms,
            quota=self.quota,
        )
        if connected is None:
            connected = self._connected[user] = _Connected()
        connected.rights[rights] = takes_over
        if takes_over:
            connected.counts[client] = its_count + 1
        self._count(profile.name, 1)
        return rights

    def leave(self, rights: ClientRights) -> None:
        """Let a client go. It was admitted, and has not left yet."""
        connected = self._connected[rights.user]
        if connected.rights.pop(rights):
            left = connected.counts[rights.client] - 1
            if left:
                connected.counts[rights.client] = left
            else:
                del connected.counts[rights.client]
        if not connected.rights:
            del self._connected[rights.user]
        self._count(rights.profile.name, -1)

    def let_in(self) -> frozenset[str]:
        """Return the names of the accounts that are not shut down."""
        return frozenset([name for name, username in self._usernames.items() if username.enabled])

    def rights_of(self, user: str | None, client: str) -> ClientRights | None:
        """Return what a client of this name may do: one that is connected, else one that came as this user.

        Without a user only who is connected is known; None: nobody is. Nobody is admitted by this.
        """
        for name, connected in self._connected.items():
            if user in (None, name):
                for rights in connected.rights:
                    if rights.client == client:
                        return rights
        if user is None:
            return None
        username = self._username(user)
        profile, acl = self._profiles[username.client_profile], self._acls[username.acl_profile]
        return ClientRights(
            user=user, client=client, profile=profile, acl=acl, denials=Denials(), now_ms=0, quota=self.quota
        )

    def check_endpoint(self, rights: ClientRights, owned_count: int, total_count: int) -> None:
        """Raise ClientDenied unless a client may make one more queue, where its user owns `owned_count` of all."""
        user, client, profile = rights.user, rights.client, rights.profile
        if not profile.allow_guaranteed_endpoint_create_enabled:
            text = f"403 Permission Denied: profile {profile.name!r} does not allow to create endpoints"
            self._refuse(ENDPOINT_CREATE, client, text)
        if total_count >= self.quota.endpoint_count_max:
            text = f"503 Max Endpoints Exceeded: message VPN {self.vpn!r} has the {total_count} queues that it may have"
            self._refuse(ENDPOINT_COUNT, client, text)
        if owned_count >= profile.max_endpoint_count_per_client_username:
            count_max = profile.max_endpoint_count_per_client_username
            text = f"503 Max Endpoints Exceeded: user {user!r} owns the {count_max} queues that its profile allows"
            self._refuse(ENDPOINT_COUNT, client, text)

    def connected_count(self, user: str) -> int:
        """Return how many connections a user has."""
        connected = self._connected.get(user)
        return 0 if connected is None else len(connected.rights)

    def _renew(self, user: str) -> None:
        """Have the connections of a user go by what it stands for now."""
        username = self._username(user)
        profile, acl = self._profiles[username.client_profile], self._acls[username.acl_profile]
        connected = self._connected.get(user)
        for rights in () if connected is None else connected.rights:
            self._count(rights.profile.name, -1)
            rights.renew(profile, acl)
            self._count(profile.name, 1)

    def _count(self, profile: str, change: int) -> None:
        self.count += change
        count = self._profile_counts.get(profile, 0) + change
        if count:
            self._profile_counts[profile] = count
        else:
            self._profile_counts.pop(profile, None)

    def _username(self, user: str) -> ClientUsername:
        return self._usernames.get(user) or _NO_ACCOUNT

    def _refuse(self, reason: str, client: str, text: str) -> None:
        self.denials.deny(reason, client, text)
        raise ClientDenied(reason, text)
