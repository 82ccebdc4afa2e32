"""The kinds of objects in a declaration: how each is checked, read from a gateway, exported and changed.

`gateway.provisioning.declarations` finds the differences, and `gateway.cli.commands.config.declarations` orders the
changes.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sluicegate.gateway.cli.admin.objects import AdminObjects
from sluicegate.gateway.cli.terminal.failures import CommandFailed
from sluicegate.gateway.config.findings import described
from sluicegate.gateway.config.sections.message_vpns.bridges import Bridge
from sluicegate.gateway.config.sections.message_vpns.rest_delivery_points import RestDeliveryPoint
from sluicegate.gateway.config.sections.section import NamedSection
from sluicegate.gateway.config.sections.security.client_profiles import AclProfileSettings, ClientProfileSettings
from sluicegate.gateway.config.sections.values import plain_values
from sluicegate.gateway.provisioning.declarations import SETTINGS, Fields, Objects
from sluicegate.gateway.provisioning.message_vpns import MessageVpnSettings
from sluicegate.gateway.provisioning.store import CONFIGURATION, OPERATOR
from sluicegate.gateway.provisioning.stored_users import user_request
from sluicegate.gateway.views.clients.accounts import ProfileKind, ProfileView
from sluicegate.messaging.queues.attributes import ATTRIBUTES
from sluicegate.messaging.queues.definition import definition_from_dict, is_named
from sluicegate.messaging.queues.template import NOT_IN_TEMPLATES, template_from_dict


def _no_secrets(given: Fields) -> Fields:
    return {}


def _no_names(client: AdminObjects) -> Collection[str]:
    return ()


def _needs_nothing(given: Fields) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredKind:
    """A kind of objects. Complete fields include the defaults, so that two objects can be compared."""

    kind: str  # in documents
    label: str  # of one object, for messages
    complete: Callable[[Fields], Fields]  # adds the defaults; raises QueueInvalid
    present: Callable[[AdminObjects], Objects]  # complete fields of all objects that operators created
    add: Callable[[AdminObjects, Fields], object]
    change: Callable[[AdminObjects, str, Fields], object]  # some fields
    remove: Callable[[AdminObjects, str], object]
    required: tuple[str, ...] = ("name",)  # fields without a default
    secrets: Callable[[Fields], Fields] = _no_secrets  # fields that cannot be read back, for a new object
    needs: Callable[[Fields], Mapping[str, str]] = _needs_nothing  # objects that it names: kind -> name
    names: Callable[[AdminObjects], Collection[str]] = (
        _no_names  # of all objects, including the configuration's, if `needs` asks for them
    )

    def written(self, fields: Fields) -> Fields:
        """Return complete fields as a document lists them: without the defaults."""
        defaults = self.complete({key: fields[key] for key in self.required})
        return {key: value for key, value in fields.items() if key in self.required or value != defaults[key]}


def _queue(given: Fields) -> Fields:
    # The gateway decides which names may contain wildcards.
    definition = definition_from_dict(plain_values(given), wildcards=True)
    return {**definition.config.to_dict(), "subscriptions": sorted(definition.subscriptions)}


def _queues(client: AdminObjects) -> Objects:
    return {
        each.name: {**each.config.to_dict(), "subscriptions": sorted(each.subscriptions)}
        for each in client.list_queues()
        if each.durable and is_named(each.name)
    }


def _add_queue(client: AdminObjects, fields: Fields) -> None:
    client.create_queue({**fields, "durable": True})


def _template(given: Fields) -> Fields:
    unset = dict.fromkeys([each.name for each in ATTRIBUTES if each.name not in NOT_IN_TEMPLATES])
    said = {key: value for key, value in plain_values(given).items() if value is not None}
    return {**unset, **template_from_dict(said).to_dict()}


def _templates(client: AdminObjects) -> Objects:
    return {str(each["name"]): _template(each) for each in client.list_templates()}


def _add_template(client: AdminObjects, fields: Fields) -> None:
    client.create_template({key: value for key, value in fields.items() if value is not None})


def _user(given: Fields) -> Fields:
    return user_request(given).settings()


def _users(client: AdminObjects) -> Objects:
    return {
        each.name: {name: getattr(each, name) for name in ("name", "enabled", "client_profile", "acl_profile")}
        for each in client.list_users().users
        if each.origin == OPERATOR
    }


def _password(given: Fields) -> Fields:
    if given.get("password") is None:
        advice = "Add the user's `password` to the document; export does not include passwords."
        raise CommandFailed(f"the new user {given['name']!r} has no password", advice=advice)
    return {"password": given["password"]}


def _profiles_of(given: Fields) -> Mapping[str, str]:
    return {f"{kind}s": str(given[kind]) for kind in ProfileKind if kind in given}


def _point(given: Fields) -> Fields:
    return described(RestDeliveryPoint, given).to_dict()


def _points(client: AdminObjects) -> Objects:
    return {
        each.name: each.definition.to_dict()
        for each in client.rest_delivery_points().rest_delivery_points
        if each.origin == OPERATOR
    }


def _bridge(given: Fields) -> Fields:
    return described(Bridge, given).to_dict()


def _bridges(client: AdminObjects) -> Objects:
    return {each.name: each.definition.to_dict() for each in client.bridges().bridges if each.origin == OPERATOR}


def _profiles(kind: ProfileKind, label: str, model: type[NamedSection]) -> DeclaredKind:
    """Return the DeclaredKind for client profiles or ACL profiles."""

    def complete(given: Fields) -> Fields:
        return described(model, given).to_dict()

    def listed(client: AdminObjects) -> Sequence[ProfileView]:
        view = client.list_profiles()
        return view.client_profiles if kind is ProfileKind.CLIENT else view.acl_profiles

    def present(client: AdminObjects) -> Objects:
        return {
            each.name: each.model_dump(mode="json", exclude={"origin"})
            for each in listed(client)
            if each.origin == OPERATOR
        }

    def names(client: AdminObjects) -> Collection[str]:
        return {each.name for each in listed(client)}

    def add(client: AdminObjects, fields: Fields) -> None:
        client.create_profile(kind, fields)

    def change(client: AdminObjects, name: str, fields: Fields) -> None:
        client.update_profile(kind, name, fields)

    def remove(client: AdminObjects, name: str) -> None:
        client.delete_profile(kind, name)

    return DeclaredKind(
        kind=f"{kind}s",
        label=label,
        complete=complete,
        present=present,
        add=add,
        change=change,
        remove=remove,
        names=names,
    )


def _vpn(given: Fields) -> Fields:
    return described(MessageVpnSettings, given).to_dict()


def _vpns(client: AdminObjects) -> Objects:
    """Return the settings of the client's message VPN, under its name. Raises CommandFailed for a configured one."""
    for view in client.list_message_vpns().message_vpns:
        if view.name == client.vpn:
            if view.origin == CONFIGURATION:
                advice = f"Change them there and reload, and remove `{SETTINGS}` of this message VPN from the document."
                raise CommandFailed(f"the settings of message VPN {view.name!r} are configured", advice=advice)
            return {view.name: {"name": view.name, **view.settings}}
    return {}


def _keep_vpn(client: AdminObjects, name: str) -> None:
    raise AssertionError("a document never deletes the message VPN that it is about")


# In the order of creation: an object comes after those that it names.
DECLARED: Final = (
    DeclaredKind(
        kind=SETTINGS,
        label="message VPN",
        complete=_vpn,
        present=_vpns,
        add=AdminObjects.create_message_vpn,
        change=AdminObjects.update_message_vpn,
        remove=_keep_vpn,
    ),
    DeclaredKind(
        kind="queue_templates",
        label="queue template",
        complete=_template,
        present=_templates,
        add=_add_template,
        change=AdminObjects.update_template,
        remove=AdminObjects.delete_template,
        required=("name", "queue_name_filter"),
    ),
    DeclaredKind(
        kind="queues",
        label="queue",
        complete=_queue,
        present=_queues,
        add=_add_queue,
        change=AdminObjects.update_queue,
        remove=AdminObjects.delete_queue,
    ),
    _profiles(ProfileKind.CLIENT, "client profile", ClientProfileSettings),
    _profiles(ProfileKind.ACL, "ACL profile", AclProfileSettings),
    DeclaredKind(
        kind="users",
        label="user",
        complete=_user,
        present=_users,
        add=AdminObjects.create_user,
        change=AdminObjects.update_user,
        remove=AdminObjects.delete_user,
        secrets=_password,
        needs=_profiles_of,
    ),
    DeclaredKind(
        kind="rest_delivery_points",
        label="REST delivery point",
        complete=_point,
        present=_points,
        add=AdminObjects.create_rest_delivery_point,
        change=AdminObjects.update_rest_delivery_point,
        remove=AdminObjects.delete_rest_delivery_point,
    ),
    DeclaredKind(
        kind="bridges",
        label="bridge",
        complete=_bridge,
        present=_bridges,
        add=AdminObjects.create_bridge,
        change=AdminObjects.update_bridge,
        remove=AdminObjects.delete_bridge,
        required=("name", "remote_url"),
    ),
)
