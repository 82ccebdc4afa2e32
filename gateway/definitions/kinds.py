"""The kinds of objects in a document of definitions: how each is checked, read from a node, exported and changed.

`gateway.definitions.document` finds the differences, and `gateway.definitions.plan` orders the changes.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sluicegate.gateway.config.findings import described
from sluicegate.gateway.config.sections.admin import AccessLevel
from sluicegate.gateway.config.sections.message_vpns.bridges import Bridge
from sluicegate.gateway.config.sections.message_vpns.rest_delivery_points import RestDeliveryPoint, names_files
from sluicegate.gateway.config.sections.section import NamedSection
from sluicegate.gateway.config.sections.security.client_profiles import AclProfileSettings, ClientProfileSettings
from sluicegate.gateway.config.sections.values import plain_values
from sluicegate.gateway.definitions.document import SETTINGS, USERS, Fields, Objects
from sluicegate.gateway.operations.interface import NodeInterface
from sluicegate.gateway.provisioning.message_vpns import MessageVpnSettings
from sluicegate.gateway.provisioning.store import CONFIGURATION, OPERATOR
from sluicegate.gateway.provisioning.stored_users import SECRETS, user_request
from sluicegate.gateway.views.clients.accounts import ProfileKind, ProfileView
from sluicegate.gateway.views.errors import Refused
from sluicegate.messaging.queues.attributes import ATTRIBUTES
from sluicegate.messaging.queues.definition import definition_from_dict, is_named
from sluicegate.messaging.queues.template import NOT_IN_TEMPLATES, template_from_dict


def _no_secrets(given: Fields) -> Fields:
    return {}


async def _no_names(node: NodeInterface) -> Collection[str]:
    return ()


def _needs_nothing(given: Fields) -> Mapping[str, str]:
    return {}


def _read_write(fields: Fields) -> AccessLevel:
    return AccessLevel.READ_WRITE


def _admin(fields: Fields) -> AccessLevel:
    return AccessLevel.ADMIN


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionKind:
    """A kind of objects. Complete fields include the defaults, so that two objects can be compared."""

    kind: str  # in documents
    label: str  # of one object, for messages
    complete: Callable[[Fields], Fields]  # adds the defaults, leaves out secrets; raises QueueInvalid
    present: Callable[[NodeInterface], Awaitable[Objects]]  # complete fields of all objects that operators created
    add: Callable[[NodeInterface, Fields], Awaitable[object]]
    change: Callable[[NodeInterface, str, Fields], Awaitable[object]]  # some fields
    remove: Callable[[NodeInterface, str], Awaitable[object]]
    required: tuple[str, ...] = ("name",)  # fields without a default
    secrets: Callable[[Fields], Fields] = _no_secrets  # of a new object; raises Refused where one is missing
    needs: Callable[[Fields], Mapping[str, str]] = _needs_nothing  # objects that it names: kind -> name
    names: Callable[[NodeInterface], Awaitable[Collection[str]]] = (
        _no_names  # of all objects, including the configuration's, if `needs` asks for them
    )
    level: Callable[[Fields], AccessLevel] = _read_write  # that an account needs for a change of these fields

    def written(self, fields: Fields) -> Fields:
        """Return complete fields as a document lists them: without the defaults."""
        defaults = self.complete({key: fields[key] for key in self.required})
        return {key: value for key, value in fields.items() if key in self.required or value != defaults[key]}


def _queue(given: Fields) -> Fields:
    # The node decides which names may contain wildcards.
    definition = definition_from_dict(plain_values(given), wildcards=True)
    return {**definition.config.to_dict(), "subscriptions": sorted(definition.subscriptions)}


async def _queues(node: NodeInterface) -> Objects:
    return {
        each.name: {**each.config.to_dict(), "subscriptions": sorted(each.subscriptions)}
        for each in await node.list_queues()
        if each.durable and is_named(each.name)
    }


def _template(given: Fields) -> Fields:
    unset = dict.fromkeys([each.name for each in ATTRIBUTES if each.name not in NOT_IN_TEMPLATES])
    said = {key: value for key, value in plain_values(given).items() if value is not None}
    return {**unset, **template_from_dict(said).to_dict()}


async def _templates(node: NodeInterface) -> Objects:
    return {each.name: _template(each.to_dict()) for each in await node.list_templates()}


async def _add_template(node: NodeInterface, fields: Fields) -> None:
    template = template_from_dict({key: value for key, value in fields.items() if value is not None})
    await node.put_template(template, must_be_new=True)


def _user(given: Fields) -> Fields:
    return user_request(given).settings()


async def _users(node: NodeInterface) -> Objects:
    return {
        each.name: {name: getattr(each, name) for name in ("name", "enabled", "client_profile", "acl_profile")}
        for each in await node.list_users()
        if each.origin == OPERATOR
    }


def _password(given: Fields) -> Fields:
    secrets = {key: given[key] for key in SECRETS if given.get(key) is not None}
    if not secrets:
        advice = "add the user's `password` to the document; export includes hashes of passwords by option only"
        raise Refused(f"the new user {given['name']!r} has no password: {advice}")
    return secrets


def _profiles_of(given: Fields) -> Mapping[str, str]:
    return {f"{kind}s": str(given[kind]) for kind in ProfileKind if kind in given}


def _point(given: Fields) -> Fields:
    return described(RestDeliveryPoint, given).to_dict()


async def _points(node: NodeInterface) -> Objects:
    return {
        each.name: each.definition.to_dict()
        for each in await node.list_rest_delivery_points()
        if each.origin == OPERATOR
    }


def _level_of_point(fields: Fields) -> AccessLevel:
    return AccessLevel.ADMIN if names_files(fields) else AccessLevel.READ_WRITE


def _bridge(given: Fields) -> Fields:
    return described(Bridge, given).to_dict()


async def _bridges(node: NodeInterface) -> Objects:
    return {each.name: each.definition.to_dict() for each in await node.list_bridges() if each.origin == OPERATOR}


def _profiles(kind: ProfileKind, label: str, model: type[NamedSection]) -> DefinitionKind:
    """Return the DefinitionKind for client profiles or ACL profiles."""

    def complete(given: Fields) -> Fields:
        return described(model, given).to_dict()

    async def listed(node: NodeInterface) -> Sequence[ProfileView]:
        view = await node.list_profiles()
        return view.client_profiles if kind is ProfileKind.CLIENT else view.acl_profiles

    async def present(node: NodeInterface) -> Objects:
        return {
            each.name: each.model_dump(mode="json", exclude={"origin"})
            for each in await listed(node)
            if each.origin == OPERATOR
        }

    async def names(node: NodeInterface) -> Collection[str]:
        return {each.name for each in await listed(node)}

    return DefinitionKind(
        kind=f"{kind}s",
        label=label,
        complete=complete,
        present=present,
        add=lambda node, fields: node.create_profile(kind, fields),
        change=lambda node, name, fields: node.update_profile(kind, name, fields),
        remove=lambda node, name: node.delete_profile(kind, name),
        names=names,
    )


def _vpn(given: Fields) -> Fields:
    return described(MessageVpnSettings, given).to_dict()


async def _vpns(node: NodeInterface) -> Objects:
    """Return the settings of the message VPNs that are not configured."""
    return {
        each.name: {"name": each.name, **each.settings}
        for each in (await node.list_message_vpns()).message_vpns
        if each.origin != CONFIGURATION
    }


async def _keep_vpn(node: NodeInterface, name: str) -> None:
    raise AssertionError("a document never deletes the message VPN that it is about")


# In the order of creation: an object comes after those that it names.
KINDS: Final = (
    DefinitionKind(
        kind=SETTINGS,
        label="message VPN",
        complete=_vpn,
        present=_vpns,
        add=lambda node, fields: node.create_message_vpn(fields),
        change=lambda node, name, fields: node.update_message_vpn(name, fields),
        remove=_keep_vpn,
    ),
    DefinitionKind(
        kind="queue_templates",
        label="queue template",
        complete=_template,
        present=_templates,
        add=_add_template,
        change=lambda node, name, fields: node.update_template(name, fields),
        remove=lambda node, name: node.delete_template(name),
        required=("name", "queue_name_filter"),
    ),
    DefinitionKind(
        kind="queues",
        label="queue",
        complete=_queue,
        present=_queues,
        add=lambda node, fields: node.create_queue(fields, durable=True),
        change=lambda node, name, fields: node.update_queue(name, fields),
        remove=lambda node, name: node.delete_queue(name),
    ),
    _profiles(ProfileKind.CLIENT, "client profile", ClientProfileSettings),
    _profiles(ProfileKind.ACL, "ACL profile", AclProfileSettings),
    DefinitionKind(
        kind=USERS,
        label="user",
        complete=_user,
        present=_users,
        add=lambda node, fields: node.create_user(fields),
        change=lambda node, name, fields: node.update_user(name, fields),
        remove=lambda node, name: node.delete_user(name),
        secrets=_password,
        needs=_profiles_of,
    ),
    DefinitionKind(
        kind="rest_delivery_points",
        label="REST delivery point",
        complete=_point,
        present=_points,
        add=lambda node, fields: node.create_rest_delivery_point(fields),
        change=lambda node, name, fields: node.update_rest_delivery_point(name, fields),
        remove=lambda node, name: node.delete_rest_delivery_point(name),
        level=_level_of_point,
    ),
    DefinitionKind(
        kind="bridges",
        label="bridge",
        complete=_bridge,
        present=_bridges,
        add=lambda node, fields: node.create_bridge(fields),
        change=lambda node, name, fields: node.update_bridge(name, fields),
        remove=lambda node, name: node.delete_bridge(name),
        required=("name", "remote_url"),
        level=_admin,
    ),
)
KIND_BY_NAME: Final = {each.kind: each for each in KINDS}
