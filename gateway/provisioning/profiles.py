"""The client and ACL profiles of a message VPN: configured ones, those that operators created, and `default`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from sluicegate.gateway.config.findings import changed, described
from sluicegate.gateway.config.sections.section import NamedSection
from sluicegate.gateway.config.sections.security.authentication import Authentication
from sluicegate.gateway.config.sections.security.client_profiles import (
    AclProfileSettings,
    ClientProfileSettings,
    TopicException,
)
from sluicegate.gateway.provisioning.store import (
    CONFIGURATION,
    OPERATOR,
    ObjectKind,
    ProvisionedObjects,
    VpnAccess,
    kind_of_sections,
)
from sluicegate.gateway.views.clients.accounts import (
    ACL_DEFAULT,
    CLIENT_DEFAULT,
    AclException,
    AclProfileView,
    ClientProfileView,
    ProfileKind,
)
from sluicegate.gateway.views.errors import (
    AclExceptionAlreadyExists,
    AclExceptionNotFound,
    AclProfileAlreadyExists,
    AclProfileNotFound,
    ClientProfileAlreadyExists,
    ClientProfileNotFound,
    Refused,
)
from sluicegate.messaging.clients.roster import ClientRoster
from sluicegate.storage.catalog.recovered import StoredVpn

PROFILES_MAX: Final = 1000  # of each kind, created by operators: a reload visits all of them
NAMED_MAX: Final = 5  # names of users in an error: a profile may have thousands

P = TypeVar("P", bound=NamedSection)
V = TypeVar("V", bound=NamedSection)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(Generic[P, V]):
    """What the profiles of one kind share."""

    field: ProfileKind
    model: type[P]
    default: P
    configured: Callable[[Authentication], Sequence[P]]
    view: Callable[[P, str], V]
    objects: ObjectKind[P]
    put_in_force: Callable[[ClientRoster, str, P | None], None]  # by name; None: the profile is gone


CLIENT: Final = Kind(
    field=ProfileKind.CLIENT,
    model=ClientProfileSettings,
    default=CLIENT_DEFAULT,
    configured=lambda authentication: authentication.client_profiles,
    view=ClientProfileView.of,
    objects=kind_of_sections(
        ClientProfileSettings,
        row_key=b"client-profile/",
        count_max=PROFILES_MAX,
        not_found=ClientProfileNotFound,
        already_exists=ClientProfileAlreadyExists,
    ),
    put_in_force=lambda roster, name, profile: roster.set_client_profile(
        name, None if profile is None else profile.profile()
    ),
)
ACL: Final = Kind(
    field=ProfileKind.ACL,
    model=AclProfileSettings,
    default=ACL_DEFAULT,
    configured=lambda authentication: authentication.acl_profiles,
    view=AclProfileView.of,
    objects=kind_of_sections(
        AclProfileSettings,
        row_key=b"acl-profile/",
        count_max=PROFILES_MAX,
        not_found=AclProfileNotFound,
        already_exists=AclProfileAlreadyExists,
    ),
    put_in_force=lambda roster, name, profile: roster.set_acl_profile(
        name, None if profile is None else profile.profile()
    ),
)


class Profiles(Generic[P, V]):
    """The profiles of one kind. A change applies to connected clients, too."""

    def __init__(
        self,
        kind: Kind[P, V],
        vpn: VpnAccess,
        stored: StoredVpn,
        *,
        users_with: Callable[[ProfileKind, str], Sequence[str]],
        on_users_changed: Callable[[], None],
    ) -> None:
        """`users_with` returns the users of a profile; `on_users_changed` is called when a change affects them."""
        self._kind = kind
        self._vpn = vpn
        self._users_with = users_with
        self._on_users_changed = on_users_changed
        self._provisioned = ProvisionedObjects(kind.objects, vpn, stored.catalog, self._configured)

    def all(self) -> dict[str, P]:
        """Return all profiles that users may have, by name."""
        return self._provisioned.objects | self._configured()

    def views(self) -> list[V]:
        """Return the view of each profile, by name."""
        configured = self._configured()
        return [
            self._kind.view(profile, CONFIGURATION if name in configured else OPERATOR)
            for name, profile in sorted((self._provisioned.objects | configured).items())
        ]

    def view(self, name: str) -> V:
        """Return the view of a profile. Raises NotFound."""
        origin = self._provisioned.origin(name)
        return self._kind.view(self.all()[name], origin)

    async def create(self, asked: Mapping[str, object]) -> V:
        """Create a profile. Raises AlreadyExists, QueueInvalid and Refused."""
        profile = described(self._kind.model, asked)
        await self._provisioned.change(self._create(profile))
        return self.view(profile.name)

    async def update(self, name: str, change: Callable[[P], Mapping[str, object]]) -> V:
        """Change the fields that `change` returns for a profile. Raises NotFound, QueueInvalid and Refused."""
        await self._provisioned.change(self._update(name, change))
        return self.view(name)

    async def delete(self, name: str) -> None:
        """Delete a profile that no user has. Raises NotFound and Refused."""
        await self._provisioned.change(self._delete(name))

    async def _create(self, profile: P) -> None:
        self._provisioned.check_new(profile.name)
        await self._put(profile.name, profile)
        self._come_or_gone(profile.name)

    async def _update(self, name: str, change: Callable[[P], Mapping[str, object]]) -> None:
        profile = self._provisioned.changeable(name)
        await self._put(name, changed(profile, change(profile)))

    async def _delete(self, name: str) -> None:
        self._provisioned.changeable(name)
        users = self._users_with(self._kind.field, name)
        if users:
            told = ", ".join(repr(user) for user in users[:NAMED_MAX])
            more = f" and {len(users) - NAMED_MAX} others" if len(users) > NAMED_MAX else ""
            raise Refused(f"users have it: {told}{more}; give them another one first")
        await self._put(name, None)
        self._come_or_gone(name)

    async def _put(self, name: str, profile: P | None) -> None:
        await self._provisioned.put(name, profile)
        self._kind.put_in_force(self._vpn.clients, name, self.all().get(name))

    def _come_or_gone(self, name: str) -> None:
        """Have users of a profile that was created or deleted put in force again.

        Users shut down for want of it may connect; a user that got it just before the deletion may not.
        """
        if self._users_with(self._kind.field, name):
            self._on_users_changed()

    def _configured(self) -> dict[str, P]:
        configured = self._kind.configured(self._vpn.config.authentication)
        return {each.name: each for each in (self._kind.default, *configured)}


AnyProfiles = Profiles[ClientProfileSettings, ClientProfileView] | Profiles[AclProfileSettings, AclProfileView]


def with_exception(profile: AclProfileSettings, field: str, exception: AclException) -> dict[str, object]:
    """Return the change that adds an exception to a profile. Raises AclExceptionAlreadyExists and QueueInvalid."""
    if not isinstance(exception, str):
        exception = described(TopicException, exception).model_dump()
    before = _exceptions(profile, field)
    if _key_of(exception) in [_key_of(each) for each in before]:
        raise AclExceptionAlreadyExists(_key_of(exception))
    return {field: [*before, exception]}


def without_exception(profile: AclProfileSettings, field: str, key: str) -> dict[str, object]:
    """Return the change that removes an exception from a profile. Raises AclExceptionNotFound."""
    before = _exceptions(profile, field)
    left = [each for each in before if _key_of(each) != key]
    if len(left) == len(before):
        raise AclExceptionNotFound(key)
    return {field: left}


def _exceptions(profile: AclProfileSettings, field: str) -> list[AclException]:
    found = profile.to_dict()[field]
    assert isinstance(found, list), "the caller names a list of exceptions"
    return found


def _key_of(exception: AclException) -> str:
    """Return the key of an exception: its syntax and topic, or the network itself."""
    return exception if isinstance(exception, str) else f"{exception['syntax']},{exception['topic']}"
