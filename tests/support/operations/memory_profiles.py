"""The profiles of a node in memory: those of a configuration that a test sets, and those that it makes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sluicegate.gateway.config.findings import changed, described
from sluicegate.gateway.config.sections.security.authentication import Authentication
from sluicegate.gateway.config.sections.security.client_profiles import AclProfileSettings, ClientProfileSettings
from sluicegate.gateway.provisioning.profiles import with_exception, without_exception
from sluicegate.gateway.provisioning.store import CONFIGURATION, OPERATOR
from sluicegate.gateway.views.clients.accounts import (
    ACL_DEFAULT,
    CLIENT_DEFAULT,
    AclException,
    AclProfileView,
    ClientProfileView,
    ProfileKind,
    ProfilesView,
    ProfileView,
)
from sluicegate.gateway.views.errors import (
    AclProfileAlreadyExists,
    AclProfileNotFound,
    ClientProfileAlreadyExists,
    ClientProfileNotFound,
    Refused,
)

Profile = ClientProfileSettings | AclProfileSettings


@dataclass
class MemoryProfiles:
    """Profiles in dicts; no user has one."""

    authentication: Authentication = field(default_factory=Authentication)
    profiles: dict[ProfileKind, dict[str, Profile]] = field(default_factory=lambda: {kind: {} for kind in ProfileKind})

    async def list_profiles(self) -> ProfilesView:
        views = {
            kind: [self._profile_view(kind, name) for name in sorted(self._profiles_of(kind))] for kind in ProfileKind
        }
        return ProfilesView(
            [each for each in views[ProfileKind.CLIENT] if isinstance(each, ClientProfileView)],
            [each for each in views[ProfileKind.ACL] if isinstance(each, AclProfileView)],
        )

    async def show_profile(self, kind: ProfileKind, name: str) -> ProfileView:
        if name not in self._profiles_of(kind):
            raise ClientProfileNotFound(name) if kind is ProfileKind.CLIENT else AclProfileNotFound(name)
        return self._profile_view(kind, name)

    async def create_profile(self, kind: ProfileKind, asked: Mapping[str, object]) -> ProfileView:
        profile: Profile
        if kind is ProfileKind.CLIENT:
            profile = described(ClientProfileSettings, asked)
        else:
            profile = described(AclProfileSettings, asked)
        name = profile.name
        if name in self._profiles_of(kind):
            raise ClientProfileAlreadyExists(name) if kind is ProfileKind.CLIENT else AclProfileAlreadyExists(name)
        self.profiles[kind][name] = profile
        return self._profile_view(kind, name)

    async def update_profile(self, kind: ProfileKind, name: str, changes: Mapping[str, object]) -> ProfileView:
        self.profiles[kind][name] = changed(await self._made_profile(kind, name), changes)
        return self._profile_view(kind, name)

    async def delete_profile(self, kind: ProfileKind, name: str) -> None:
        await self._made_profile(kind, name)
        del self.profiles[kind][name]

    async def add_acl_exception(self, profile: str, field: str, exception: AclException) -> None:
        acl = await self._made_profile(ProfileKind.ACL, profile)
        assert isinstance(acl, AclProfileSettings)
        await self.update_profile(ProfileKind.ACL, profile, with_exception(acl, field, exception))

    async def remove_acl_exception(self, profile: str, field: str, key: str) -> None:
        acl = await self._made_profile(ProfileKind.ACL, profile)
        assert isinstance(acl, AclProfileSettings)
        await self.update_profile(ProfileKind.ACL, profile, without_exception(acl, field, key))

    async def _made_profile(self, kind: ProfileKind, name: str) -> Profile:
        await self.show_profile(kind, name)
        if name not in self.profiles[kind]:
            raise Refused("it is the configuration's")
        return self.profiles[kind][name]

    def _profiles_of(self, kind: ProfileKind) -> dict[str, Profile]:
        configured: tuple[Profile, ...]
        if kind is ProfileKind.CLIENT:
            configured = (CLIENT_DEFAULT, *self.authentication.client_profiles)
        else:
            configured = (ACL_DEFAULT, *self.authentication.acl_profiles)
        return self.profiles[kind] | {each.name: each for each in configured}

    def _profile_view(self, kind: ProfileKind, name: str) -> ProfileView:
        profile, origin = self._profiles_of(kind)[name], OPERATOR if name in self.profiles[kind] else CONFIGURATION
        if isinstance(profile, ClientProfileSettings):
            return ClientProfileView.of(profile, origin)
        return AclProfileView.of(profile, origin)
