"""Operations on what all brokers have alike: it is read at one of them, and changed at each."""

from collections.abc import Mapping, Sequence

from sluicegate.gateway.machine.operations.merging import (
    merged_links,
    merged_vpn,
)
from sluicegate.gateway.machine.operations.rules import Rules
from sluicegate.gateway.views.clients.accounts import (
    AclException,
    PasswordHashes,
    ProfileKind,
    ProfilesView,
    ProfileView,
    UserView,
)
from sluicegate.gateway.views.clients.message_vpns import MessageVpnsView, MessageVpnView
from sluicegate.gateway.views.errors import LinkNotFound
from sluicegate.gateway.views.links import LinksView, LinkView
from sluicegate.messaging.queues.template import QueueTemplate


class DefinitionOperations(Rules):
    """Carries out operations on what all brokers have alike: message VPNs, templates, users, profiles and links."""

    async def list_message_vpns(self) -> MessageVpnsView:
        """Return every message VPN, by name."""
        by_name: dict[str, list[MessageVpnView]] = {}
        for _, view in await self._all("list_message_vpns"):
            for each in view.message_vpns:
                by_name.setdefault(each.name, []).append(each)
        brokers_count = len(self._machine.brokers)
        return MessageVpnsView(tuple([merged_vpn(views, brokers_count) for _, views in sorted(by_name.items())]))

    async def show_message_vpn(self, name: str) -> MessageVpnView:
        """Return one message VPN."""
        views = [view for _, view in await self._all("show_message_vpn", name)]
        return merged_vpn(views, len(self._machine.brokers))

    async def create_message_vpn(self, asked: Mapping[str, object]) -> MessageVpnView:
        """Create a message VPN."""
        await self._everywhere(
            "create_message_vpn",
            asked,
            undo=lambda broker: self._at(broker, "delete_message_vpn", asked.get("name"), force=True),
        )
        return await self.show_message_vpn(str(asked.get("name")))

    async def update_message_vpn(self, name: str, changes: Mapping[str, object]) -> MessageVpnView:
        """Change settings of a message VPN."""
        await self._everywhere("update_message_vpn", name, changes)
        return await self.show_message_vpn(name)

    async def delete_message_vpn(self, name: str, *, force: bool) -> None:
        """Delete a message VPN."""
        await self._everywhere("delete_message_vpn", name, force=force)

    async def list_templates(self) -> Sequence[QueueTemplate]:
        """Return every queue template by name."""
        templates: Sequence[QueueTemplate] = await self._first("list_templates")
        return templates

    async def put_template(self, template: QueueTemplate, *, must_be_new: bool) -> None:
        """Store a queue template."""
        undo = (lambda broker: self._at(broker, "delete_template", template.name)) if must_be_new else None
        await self._everywhere("put_template", template, must_be_new=must_be_new, undo=undo)

    async def update_template(self, name: str, changes: Mapping[str, object]) -> QueueTemplate:
        """Change some fields of a queue template."""
        template: QueueTemplate = await self._everywhere("update_template", name, changes)
        return template

    async def delete_template(self, name: str) -> None:
        """Delete a queue template."""
        await self._everywhere("delete_template", name)

    async def list_users(self) -> Sequence[UserView]:
        """Return every user by name."""
        users: Sequence[UserView] = await self._first("list_users")
        return users

    async def show_user(self, name: str) -> UserView:
        """Return one user."""
        user: UserView = await self._first("show_user", name)
        return user

    async def password_hashes(self) -> Mapping[str, PasswordHashes]:
        """Return the stored hashes of users. Each broker has its own, of the same passwords."""
        hashes: Mapping[str, PasswordHashes] = await self._first("password_hashes")
        return hashes

    async def create_user(self, asked: Mapping[str, object]) -> UserView:
        """Create a user; the password is in plain."""
        user: UserView = await self._everywhere(
            "create_user", asked, undo=lambda broker: self._at(broker, "delete_user", asked.get("name"))
        )
        return user

    async def update_user(self, name: str, changes: Mapping[str, object]) -> UserView:
        """Change a user that operators created."""
        user: UserView = await self._everywhere("update_user", name, changes)
        return user

    async def delete_user(self, name: str) -> None:
        """Delete a user that operators created, and disconnect its clients."""
        await self._everywhere("delete_user", name)

    async def list_profiles(self) -> ProfilesView:
        """Return the client and ACL profiles that users may have, by name."""
        profiles: ProfilesView = await self._first("list_profiles")
        return profiles

    async def show_profile(self, kind: ProfileKind, name: str) -> ProfileView:
        """Return one profile."""
        profile: ProfileView = await self._first("show_profile", kind, name)
        return profile

    async def create_profile(self, kind: ProfileKind, asked: Mapping[str, object]) -> ProfileView:
        """Create a profile."""
        profile: ProfileView = await self._everywhere(
            "create_profile",
            kind,
            asked,
            undo=lambda broker: self._at(broker, "delete_profile", kind, asked.get("name")),
        )
        return profile

    async def update_profile(self, kind: ProfileKind, name: str, changes: Mapping[str, object]) -> ProfileView:
        """Change a profile that operators created."""
        profile: ProfileView = await self._everywhere("update_profile", kind, name, changes)
        return profile

    async def delete_profile(self, kind: ProfileKind, name: str) -> None:
        """Delete a profile that operators created and no user has."""
        await self._everywhere("delete_profile", kind, name)

    async def add_acl_exception(self, profile: str, field: str, exception: AclException) -> None:
        """Add to a list of an ACL profile."""
        await self._everywhere("add_acl_exception", profile, field, exception)

    async def remove_acl_exception(self, profile: str, field: str, key: str) -> None:
        """Remove from a list of an ACL profile."""
        await self._everywhere("remove_acl_exception", profile, field, key)

    async def list_links(self) -> LinksView:
        """Return the links to brokers of other machines, by name."""
        here = {broker.name for broker in self._machine.brokers}
        return merged_links([view for _, view in await self._all("list_links")], here)

    async def show_link(self, name: str) -> LinkView:
        """Return one link."""
        link: LinkView = await self._first("show_link", name)
        return link

    async def create_link(self, asked: Mapping[str, object]) -> LinkView:
        """Create a link, of each broker."""
        link: LinkView = await self._everywhere(
            "create_link", asked, undo=lambda broker: self._at(broker, "delete_link", asked.get("name"))
        )
        return link

    async def update_link(self, name: str, changes: Mapping[str, object]) -> LinkView:
        """Change a link that an operator created; it begins anew."""
        link: LinkView = await self._everywhere("update_link", name, changes)
        return link

    async def delete_link(self, name: str) -> None:
        """Delete a link that an operator created."""
        await self._everywhere("delete_link", name)

    async def forget_neighbor(self, name: str, *, vpn: str = "", force: bool) -> None:
        """Delete what is kept for a neighbor broker that has no link."""
        missing: LinkNotFound | None = None
        found = False
        for broker in self._every():
            try:
                await self._at(broker, "forget_neighbor", name, vpn=vpn, force=force)
                found = True
            except LinkNotFound as error:  # it has forgotten the neighbor before, or never knew it
                missing = missing or error
        if missing is not None and not found:
            raise missing
