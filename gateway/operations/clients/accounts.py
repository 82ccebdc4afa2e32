"""Operations on the users and profiles of a message VPN."""

from collections.abc import Mapping, Sequence

from sluicegate.gateway.node.vpn import MessageVpn
from sluicegate.gateway.provisioning.profiles import with_exception, without_exception
from sluicegate.gateway.views.clients.accounts import (
    AclException,
    PasswordHashes,
    ProfileKind,
    ProfilesView,
    ProfileView,
    UserView,
)


class AccountOperations:
    """Carries out operations on the users and profiles of one message VPN."""

    def __init__(self, vpn: MessageVpn) -> None:
        self._vpn = vpn

    async def list_users(self) -> Sequence[UserView]:
        """Return every user by name."""
        return self._vpn.users.views()

    async def show_user(self, name: str) -> UserView:
        """Return one user."""
        return self._vpn.users.view(name)

    async def password_hashes(self) -> Mapping[str, PasswordHashes]:
        """Return the stored hashes of users."""
        return self._vpn.users.password_hashes()

    async def create_user(self, asked: Mapping[str, object]) -> UserView:
        """Create a user."""
        return self._vpn.users.view(await self._vpn.users.create(asked))

    async def update_user(self, name: str, changes: Mapping[str, object]) -> UserView:
        """Change a user."""
        await self._vpn.users.update(name, changes)
        return self._vpn.users.view(name)

    async def delete_user(self, name: str) -> None:
        """Delete a user."""
        await self._vpn.users.delete(name)

    async def list_profiles(self) -> ProfilesView:
        """Return the profiles that users may have."""
        return ProfilesView(self._vpn.client_profiles.views(), self._vpn.acl_profiles.views())

    async def show_profile(self, kind: ProfileKind, name: str) -> ProfileView:
        """Return one profile."""
        return self._vpn.profiles(kind).view(name)

    async def create_profile(self, kind: ProfileKind, asked: Mapping[str, object]) -> ProfileView:
        """Create a profile."""
        return await self._vpn.profiles(kind).create(asked)

    async def update_profile(self, kind: ProfileKind, name: str, changes: Mapping[str, object]) -> ProfileView:
        """Change a profile."""
        return await self._vpn.profiles(kind).update(name, lambda _: changes)

    async def delete_profile(self, kind: ProfileKind, name: str) -> None:
        """Delete a profile."""
        await self._vpn.profiles(kind).delete(name)

    async def add_acl_exception(self, profile: str, field: str, exception: AclException) -> None:
        """Add to a list of an ACL profile."""
        await self._vpn.acl_profiles.update(profile, lambda acl: with_exception(acl, field, exception))

    async def remove_acl_exception(self, profile: str, field: str, key: str) -> None:
        """Remove from a list of an ACL profile."""
        await self._vpn.acl_profiles.update(profile, lambda acl: without_exception(acl, field, key))
