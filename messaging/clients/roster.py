"""The roster: the client usernames with their profiles, and the clients connected under each.

The roster lives on the loop, like gates and budgets. The node sets the usernames and each change to them. Connections
ask it for admission and leave when they end; the queue directory asks it before it creates a queue for a client.
`protocols.security.authentication` has authenticated the user before.

Invariants: the connections of a username and of a profile are counted exactly; a username without an entry has the
profiles of the username `default`, which always exist.
"""

from dataclasses import dataclass
from typing import Final, final

from sluicegate.messaging.clients.acl_profile import AclProfile, permissive
from sluicegate.messaging.clients.limits import COUNT_MAX, ClientProfile, VpnQuota
from sluicegate.messaging.clients.payload_rules import PayloadRules
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
    Grants,
)
from sluicegate.messaging.limits.places import PlaceOf, SharedPlaces
from sluicegate.messaging.message.vpn import DEFAULT_VPN

DEFAULT: Final = "default"


@dataclass(frozen=True)
class ClientUsername:
    """A username that clients connect under, and its profiles."""

    name: str
    enabled: bool = True
    client_profile: str = DEFAULT
    acl_profile: str = DEFAULT


_NO_ACCOUNT: Final = ClientUsername("")  # for every name without an entry


@final
class _Connected:
    """The connections under one username. Mostly each has a client name of its own."""

    def __init__(self) -> None:
        self.grants: Grants | None = None  # of all whose names matter nothing to the ACL profile
        self.count = 0
        self._first: dict[str, ClientRights] = {}  # one connection of each client name
        self._further: dict[str, dict[ClientRights, None]] = {}  # the others of a client name

    def all(self) -> list[ClientRights]:
        """Return the rights of all connections."""
        return [*self._first.values(), *[rights for others in self._further.values() for rights in others]]

    def named(self, client: str) -> list[ClientRights]:
        """Return the rights of the connections of a client name."""
        first = self._first.get(client)
        return [] if first is None else [first, *self._further.get(client, ())]

    def taken_over_count(self, client: str) -> int:
        """Return how many connections of a client name a further one takes over."""
        if client not in self._first:
            return 0
        return len([rights for rights in self.named(client) if rights.takes_over])

    def add(self, rights: ClientRights) -> None:
        """Add a connection."""
        self.count += 1
        if rights.client in self._first:
            self._further.setdefault(rights.client, {})[rights] = None
        else:
            self._first[rights.client] = rights

    def remove(self, rights: ClientRights) -> None:
        """Remove a connection that was added. Raises KeyError for another."""
        client = rights.client
        others = self._further.get(client)
        if self._first[client] is not rights:
            del self._further[client][rights]
        elif others:
            self._first[client], _ = others.popitem()
        else:
            del self._first[client]
        if others is not None and not others:
            del self._further[client]
        self.count -= 1


@final
class ClientRoster:
    """The clients of a message VPN: those that are connected, and the usernames that may connect."""

    def __init__(self, vpn: str = DEFAULT_VPN, quota: VpnQuota | None = None) -> None:
        self.vpn = vpn  # of these clients
        self.quota = quota or VpnQuota()
        self.is_up = True  # the message VPN admits clients
        self.denials = Denials()
        self.count = 0  # connections
        self._payload_rules: PayloadRules | None = None  # None: there are none, and nobody looks for any
        self._places: SharedPlaces | None = None  # beside those of the other brokers of this machine
        self._usernames: dict[str, ClientUsername] = {}
        self._profiles: dict[str, ClientProfile] = {DEFAULT: ClientProfile(name=DEFAULT)}
        self._acls: dict[str, AclProfile] = {DEFAULT: permissive(DEFAULT)}
        self._connected: dict[str, _Connected] = {}  # by username
        self._visitors: dict[str, dict[ClientRights, None]] = {}  # by username
        self._profile_counts: dict[str, int] = {}  # connections, by the profile they came in with
        self._owned: dict[str, int] = {}  # queues by user; counted while brokers of this machine share limits

    def share(self, places: SharedPlaces) -> None:
        """Share the limits of connections with the other brokers of this machine. Nobody is connected yet."""
        self._places = places

    def set_payload_rules(self, rules: PayloadRules) -> None:
        """Have the clients' messages checked against these rules from now on; not at all while there are none."""
        in_force = rules if rules.rules else None
        if self._payload_rules is not in_force:
            self._payload_rules = in_force
            for user in self._users():
                self._renew(user)

    def configure(self, usernames: list[ClientUsername], profiles: list[ClientProfile], acls: list[AclProfile]) -> None:
        """Set usernames and profiles, also for connected clients. The profiles that usernames refer to are among them.

        A client whose username is gone keeps its rights until it is disconnected: the defaults may allow more.
        """
        before, self._usernames = self._usernames, {each.name: each for each in usernames}
        self._profiles = {DEFAULT: ClientProfile(name=DEFAULT)} | {each.name: each for each in profiles}
        self._acls = {DEFAULT: permissive(DEFAULT)} | {each.name: each for each in acls}
        for user in self._users():
            if user in self._usernames or user not in before:
                self._renew(user)
        for user in self._owned:
            self._settle_owner(user)

    def set_username(self, name: str, username: ClientUsername | None) -> bool:
        """Set the account of a username; None removes it. Other usernames' connections stay. Its profiles exist.

        Return whether the username was enabled and no longer is. A removed username is treated as in `configure`.
        """
        before = self._usernames.pop(name, None)
        if username is not None:
            self._usernames[name] = username
            self._renew(name)
        if name in self._owned:
            self._settle_owner(name)
        return before is not None and before.enabled and (username is None or not username.enabled)

    def set_client_profile(self, name: str, profile: ClientProfile | None) -> None:
        """Replace a client profile, also for the clients connected with it. None: no username uses it."""
        if profile is None:
            self._profiles.pop(name, None)
            return
        self._profiles[name] = profile
        for user in self._users():
            if self._username(user).client_profile == name:
                self._renew(user)
        for user in self._owned:
            if self._username(user).client_profile == name:
                self._settle_owner(user)

    def set_acl_profile(self, name: str, acl: AclProfile | None) -> None:
        """Replace an ACL profile, also for the clients connected with it. None: no username uses it."""
        if acl is None:
            self._acls.pop(name, None)
            return
        self._acls[name] = acl
        for user in self._users():
            if self._username(user).acl_profile == name:
                self._renew(user)

    def username(self, name: str) -> ClientUsername | None:
        """Return the account of a username, the very object that was set; None if there is none."""
        return self._usernames.get(name)

    def has_profiles(self, username: ClientUsername) -> bool:
        """Return whether the profiles of a username exist."""
        return username.client_profile in self._profiles and username.acl_profile in self._acls

    def admit(
        self,
        user: str,
        client: str,
        host: str,
        now_ms: int,
        *,
        takes_over: bool = False,
        rights: ClientRights | None = None,
    ) -> ClientRights:
        """Admit a client that is authenticated as this user; empty: anonymous. Raises ClientDenied. `leave` ends it.

        `host` is the address of the client. With `takes_over` the client ends an existing connection of the same client
        name, which then does not count. `rights` are given to it, if they are there already.
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
        ends = 1 if takes_over and connected is not None and connected.taken_over_count(client) > 0 else 0
        refuses = self._full(user, profile, ends)
        if refuses is not None:
            self._refuse(TOO_MANY_CONNECTIONS, client, self._text_of_full(refuses, user, profile))
        if connected is None:
            connected = self._connected[user] = _Connected()
        if rights is None:
            rights = ClientRights()
        rights.is_connected = True
        rights.begin(client, self._grants(user, client, profile, acl, connected), now_ms, takes_over=takes_over)
        connected.add(rights)
        self._count(profile.name, 1)
        return rights

    def _full(self, user: str, profile: ClientProfile, ends: int) -> PlaceOf | None:
        """Return whose limit has no place for one more connection, which ends so many others; None: all have one."""
        further = 1 - ends
        count, count_max = self.connected_count(user) + further, profile.max_connection_count_per_client_username
        if count > count_max:
            return PlaceOf.USERNAME
        if self.count + further > self.quota.connection_count_max:
            return PlaceOf.VPN
        of_profile = self._profile_counts.get(profile.name, 0) + further
        if of_profile > profile.max_connection_count:
            return PlaceOf.PROFILE
        places = self._places
        if places is None:
            return None
        wants = [(PlaceOf.VPN, "", self.count + further, self.quota.connection_count_max)]
        if count_max < COUNT_MAX:
            wants.insert(0, (PlaceOf.USERNAME, user, count, count_max))
        if profile.max_connection_count < COUNT_MAX:
            wants.append((PlaceOf.PROFILE, profile.name, of_profile, profile.max_connection_count))
        return places.claim(wants)

    def _text_of_full(self, of: PlaceOf, user: str, profile: ClientProfile) -> str:
        if of is PlaceOf.USERNAME:
            count_max = profile.max_connection_count_per_client_username
            return f"503 Too Many Clients: user {user!r} has the {count_max} connections that its profile allows"
        if of is PlaceOf.VPN:
            count_max = self.quota.connection_count_max
            return f"503 Too Many Clients: message VPN {self.vpn!r} has the {count_max} connections that it may have"
        return f"503 Too Many Clients: profile {profile.name!r} allows {profile.max_connection_count} connections"

    def leave(self, rights: ClientRights) -> None:
        """Remove a client that was admitted and has not left yet."""
        rights.is_connected = False
        connected = self._connected[rights.username]
        connected.remove(rights)
        if connected.count == 0:
            del self._connected[rights.username]
        self._count(rights.profile.name, -1)
        self._settle_user(rights.username, rights.profile)

    def visit(self, user: str, client: str, now_ms: int, rights: ClientRights) -> None:
        """Give rights to a client that has its place at another broker of this machine. `end_visit` ends it."""
        username = self._username(user)
        profile, acl = self._profiles[username.client_profile], self._acls[username.acl_profile]
        rights.begin(client, Grants(user, client, profile, acl, self.denials, self.quota, self._payload_rules), now_ms)
        self._visitors.setdefault(user, {})[rights] = None

    def end_visit(self, rights: ClientRights) -> None:
        """Forget a client that `visit` gave rights to."""
        visitors = self._visitors[rights.username]
        del visitors[rights]
        if not visitors:
            del self._visitors[rights.username]

    def _users(self) -> list[str]:
        """Return the usernames of all clients here."""
        return [*self._connected, *self._visitors] if self._visitors else [*self._connected]

    def _grants(self, user: str, client: str, profile: ClientProfile, acl: AclProfile, connected: _Connected) -> Grants:
        """Return what a client is granted, as one object for all clients of the username where that is possible."""
        shared = connected.grants
        if (
            shared is not None
            and shared.profile is profile
            and shared.acl is acl
            and shared.payload_rules is self._payload_rules
        ):
            return shared
        grants = Grants(user, client, profile, acl, self.denials, self.quota, self._payload_rules)
        if grants.is_for_all:
            connected.grants = grants
        return grants

    def let_in(self) -> frozenset[str]:
        """Return the usernames that are enabled."""
        return frozenset([name for name, username in self._usernames.items() if username.enabled])

    def rights_of(self, user: str | None, client: str) -> ClientRights | None:
        """Return the rights of a connected client, else those it would have as this user. Admits nobody.

        Without a user, return None unless the client is connected.
        """
        for name, connected in self._connected.items():
            if user in (None, name):
                for rights in connected.named(client):
                    return rights
        if user is None:
            return None
        username = self._username(user)
        profile, acl = self._profiles[username.client_profile], self._acls[username.acl_profile]
        found = ClientRights()
        found.begin(client, Grants(user, client, profile, acl, Denials(), self.quota, self._payload_rules), 0)
        return found

    def check_endpoint(self, rights: ClientRights, owned_count: int, total_count: int) -> None:
        """Raise ClientDenied unless a client may create a queue; its user owns `owned_count` of `total_count`."""
        user, client, profile = rights.username, rights.client, rights.profile
        if not profile.allow_guaranteed_endpoint_create_enabled:
            text = f"403 Permission Denied: profile {profile.name!r} does not allow to create endpoints"
            self._refuse(ENDPOINT_CREATE, client, text)
        count_max = self.quota.endpoint_count_max
        shared = self.quota.shared
        if total_count >= count_max or (shared is not None and not shared.endpoints.admits(total_count + 1, count_max)):
            text = f"503 Max Endpoints Exceeded: message VPN {self.vpn!r} has the {count_max} queues that it may have"
            self._refuse(ENDPOINT_COUNT, client, text)
        count_max = profile.max_endpoint_count_per_client_username
        if owned_count >= count_max or (
            shared is not None and count_max < COUNT_MAX and not shared.owners.admits(user, owned_count + 1, count_max)
        ):
            text = f"503 Max Endpoints Exceeded: user {user!r} owns the {count_max} queues that its profile allows"
            self._refuse(ENDPOINT_COUNT, client, text)

    def owns(self, user: str, count: int) -> None:
        """Take note of how many queues a user owns; none for an empty name."""
        if self.quota.shared is None or not user:
            return
        if count:
            self._owned[user] = count
        else:
            self._owned.pop(user, None)
        self._settle_owner(user)

    def connected_count(self, user: str) -> int:
        """Return the number of connections of a user."""
        connected = self._connected.get(user)
        return 0 if connected is None else connected.count

    def is_here(self, user: str) -> bool:
        """Return whether a user has a connection here, or visits from another broker of this machine."""
        return user in self._connected or user in self._visitors

    def _renew(self, user: str) -> None:
        """Apply the current profiles of a user to its connections."""
        username = self._username(user)
        profile, acl = self._profiles[username.client_profile], self._acls[username.acl_profile]
        for visitor in self._visitors.get(user, ()):
            visitor.renew(Grants(user, visitor.client, profile, acl, self.denials, self.quota, self._payload_rules))
        connected = self._connected.get(user)
        if connected is None:
            return
        for rights in connected.all():
            self._count(rights.profile.name, -1)
            rights.renew(self._grants(user, rights.client, profile, acl, connected))
            self._count(profile.name, 1)
        self._settle_user(user, profile)

    def _count(self, profile: str, change: int) -> None:
        self.count += change
        count = self._profile_counts.get(profile, 0) + change
        if count:
            self._profile_counts[profile] = count
        else:
            self._profile_counts.pop(profile, None)
        if self._places is not None:
            self._places.settle(PlaceOf.VPN, "", self.count)
            self._places.settle(PlaceOf.PROFILE, profile, count)

    def _settle_user(self, user: str, profile: ClientProfile) -> None:
        """Show the other brokers of this machine how many connections of a user there are, while they are limited."""
        if self._places is not None:
            is_limited = profile.max_connection_count_per_client_username < COUNT_MAX
            self._places.settle(PlaceOf.USERNAME, user, self.connected_count(user) if is_limited else 0)

    def _settle_owner(self, user: str) -> None:
        """Show the other brokers of this machine how many queues a user owns, while they are limited."""
        shared = self.quota.shared
        if shared is not None:
            profile = self._profiles[self._username(user).client_profile]
            is_limited = profile.max_endpoint_count_per_client_username < COUNT_MAX
            shared.owners.settle(user, self._owned.get(user, 0) if is_limited else 0)

    def _username(self, user: str) -> ClientUsername:
        return self._usernames.get(user) or _NO_ACCOUNT

    def _refuse(self, reason: str, client: str, text: str) -> None:
        self.denials.deny(reason, client, text)
        raise ClientDenied(reason, text)
