"""Changing objects of SEMP: which of them can be made, changed and deleted, by which operations of the node.

A body's attributes become fields of the admin API, and what that says of a field is said of the attribute.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal

from starlette.requests import Request

from sluicegate.gateway.admin.requests import json_object, path_name
from sluicegate.gateway.admin.semp.envelope import Asked, Document, SempOperation, answer_of_done
from sluicegate.gateway.admin.semp.errors import invalid_parameter, not_allowed, not_found
from sluicegate.gateway.admin.semp.objects.attributes import KEYS_APART, SempAttribute, SempObject
from sluicegate.gateway.admin.semp.objects.clients import EXCEPTIONS
from sluicegate.gateway.admin.semp.objects.links import address_of, url_of
from sluicegate.gateway.admin.semp.openapi import object_schema
from sluicegate.gateway.admin.semp.read import Names, Resource, answer_with, query_of_one
from sluicegate.gateway.admin.semp.resources import (
    ACL_EXCEPTIONS,
    ACL_PROFILES,
    CLIENT_PROFILES,
    LINKS,
    QUEUES,
    REMOTE_ADDRESSES,
    SUBSCRIPTIONS,
    TEMPLATES,
    USERNAMES,
    VPNS,
)
from sluicegate.gateway.config.findings import described
from sluicegate.gateway.config.sections.section import NamedSection
from sluicegate.gateway.config.sections.security.client_profiles import AclProfileSettings, ClientProfileSettings
from sluicegate.gateway.operations.interface import NodeInterface
from sluicegate.gateway.provisioning.message_vpns import MessageVpnSettings
from sluicegate.gateway.provisioning.stored_users import user_request
from sluicegate.gateway.views.clients.accounts import ProfileKind
from sluicegate.gateway.views.errors import NotFound, QueueNotFound, UserNotFound, VpnNotFound
from sluicegate.messaging.queues.attributes import quoted
from sluicegate.messaging.queues.definition import QueueInvalid, config_from_dict
from sluicegate.messaging.queues.template import template_from_dict

Fields = dict[str, object]  # by their names in the admin API, including the object's name
Changing = Callable[[NodeInterface, Names, Fields], Awaitable[None]]  # names: of the path, outermost first
Deleting = Callable[[NodeInterface, Names], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verbs:
    """How objects of a resource are changed. None: the operation is not supported."""

    create: Changing
    delete: Deleting
    change: Changing | None = None
    replace: Changing | None = None  # omitted settings get defaults; a missing object is created


async def _create_vpn(node: NodeInterface, names: Names, fields: Fields) -> None:
    await node.create_message_vpn(fields)


async def _change_vpn(node: NodeInterface, names: Names, fields: Fields) -> None:
    await node.update_message_vpn(names[0], fields)


async def _replace_vpn(node: NodeInterface, names: Names, fields: Fields) -> None:
    try:
        await _change_vpn(node, names, {**described(MessageVpnSettings, {"name": names[0]}).to_dict(), **fields})
    except VpnNotFound:
        await _create_vpn(node, names, fields)


async def _delete_vpn(node: NodeInterface, names: Names) -> None:
    """Delete a message VPN. As on Solace's brokers, only an empty one."""
    await node.delete_message_vpn(names[0], force=False)


async def _create_queue(node: NodeInterface, names: Names, fields: Fields) -> None:
    await node.in_vpn(names[0]).create_queue(fields, durable=True)


async def _change_queue(node: NodeInterface, names: Names, fields: Fields) -> None:
    await node.in_vpn(names[0]).update_queue(names[1], fields)


async def _replace_queue(node: NodeInterface, names: Names, fields: Fields) -> None:
    try:
        await _change_queue(node, names, {**config_from_dict(fields, reserved_name=True).to_dict()})
    except QueueNotFound:
        await _create_queue(node, names, fields)


async def _delete_queue(node: NodeInterface, names: Names) -> None:
    await node.in_vpn(names[0]).delete_queue(names[1])


async def _create_subscription(node: NodeInterface, names: Names, fields: Fields) -> None:
    await node.in_vpn(names[0]).add_subscription(names[1], str(fields["topic"]))


async def _delete_subscription(node: NodeInterface, names: Names) -> None:
    await node.in_vpn(names[0]).remove_subscription(names[1], names[2])


async def _create_template(node: NodeInterface, names: Names, fields: Fields) -> None:
    await node.in_vpn(names[0]).put_template(template_from_dict(fields), must_be_new=True)


async def _change_template(node: NodeInterface, names: Names, fields: Fields) -> None:
    await node.in_vpn(names[0]).update_template(names[1], fields)


async def _replace_template(node: NodeInterface, names: Names, fields: Fields) -> None:
    await node.in_vpn(names[0]).put_template(template_from_dict(fields), must_be_new=False)


async def _delete_template(node: NodeInterface, names: Names) -> None:
    await node.in_vpn(names[0]).delete_template(names[1])


async def _create_user(node: NodeInterface, names: Names, fields: Fields) -> None:
    await node.in_vpn(names[0]).create_user(fields)


async def _change_user(node: NodeInterface, names: Names, fields: Fields) -> None:
    await node.in_vpn(names[0]).update_user(names[1], fields)


async def _replace_user(node: NodeInterface, names: Names, fields: Fields) -> None:
    """Replace a user; without a password in the body, it keeps its own."""
    try:
        await _change_user(node, names, {**user_request({"name": names[1]}).settings(), **fields})
    except UserNotFound:
        await _create_user(node, names, fields)


async def _delete_user(node: NodeInterface, names: Names) -> None:
    await node.in_vpn(names[0]).delete_user(names[1])


def _profiles(kind: ProfileKind, model: type[NamedSection]) -> Verbs:
    async def create(node: NodeInterface, names: Names, fields: Fields) -> None:
        await node.in_vpn(names[0]).create_profile(kind, fields)

    async def change(node: NodeInterface, names: Names, fields: Fields) -> None:
        await node.in_vpn(names[0]).update_profile(kind, names[1], fields)

    async def replace(node: NodeInterface, names: Names, fields: Fields) -> None:
        """Replace a profile; its exceptions stay, because they are separate objects."""
        defaults = described(model, {"name": names[1]}).to_dict()
        single = {field: value for field, value in defaults.items() if not isinstance(value, list)}
        try:
            await change(node, names, {**single, **fields})
        except NotFound:
            await create(node, names, fields)

    async def delete(node: NodeInterface, names: Names) -> None:
        await node.in_vpn(names[0]).delete_profile(kind, names[1])

    return Verbs(create=create, delete=delete, change=change, replace=replace)


def _exceptions(kind: str, field: str) -> Verbs:
    async def create(node: NodeInterface, names: Names, fields: Fields) -> None:
        exception = str(fields[kind]) if kind in fields else fields  # a network is its own name
        await node.in_vpn(names[0]).add_acl_exception(names[1], field, exception)

    async def delete(node: NodeInterface, names: Names) -> None:
        await node.in_vpn(names[0]).remove_acl_exception(names[1], field, names[2])

    return Verbs(create=create, delete=delete)


async def _create_link(node: NodeInterface, names: Names, fields: Fields) -> None:
    await _check_network(node, names)
    await node.create_link(fields)


async def _change_link(node: NodeInterface, names: Names, fields: Fields) -> None:
    await _check_network(node, names)
    await node.update_link(names[1], fields)


async def _delete_link(node: NodeInterface, names: Names) -> None:
    await _check_network(node, names)
    await node.delete_link(names[1])


async def _create_remote_address(node: NodeInterface, names: Names, fields: Fields) -> None:
    """Set the address of a link, of which it has one."""
    await _check_network(node, names)
    link = await node.show_link(names[1])
    if link.definition.url:
        raise not_allowed(f"the link has an address, {address_of(link.definition.url)}; delete it first")
    try:
        await node.update_link(names[1], {"url": url_of(str(fields["remoteAddress"]))})
    except QueueInvalid as wrong:
        raise invalid_parameter(f"remoteAddress: {wrong.text}") from None


async def _delete_remote_address(node: NodeInterface, names: Names) -> None:
    await _check_network(node, names)
    link = await node.show_link(names[1])
    if not link.definition.url or address_of(link.definition.url) != names[2]:
        raise not_found(f"dmrClusterLinkRemoteAddress {names[2]!r}")
    await node.update_link(names[1], {"url": ""})


async def _check_network(node: NodeInterface, names: Names) -> None:
    if (await node.list_links()).network != names[0]:
        raise not_found(f"dmrCluster {names[0]!r}")


CHANGED: Final[tuple[tuple[Resource, Verbs], ...]] = (
    (VPNS, Verbs(create=_create_vpn, delete=_delete_vpn, change=_change_vpn, replace=_replace_vpn)),
    (
        QUEUES,
        Verbs(create=_create_queue, delete=_delete_queue, change=_change_queue, replace=_replace_queue),
    ),
    (SUBSCRIPTIONS, Verbs(create=_create_subscription, delete=_delete_subscription)),
    (
        TEMPLATES,
        Verbs(create=_create_template, delete=_delete_template, change=_change_template, replace=_replace_template),
    ),
    (USERNAMES, Verbs(create=_create_user, delete=_delete_user, change=_change_user, replace=_replace_user)),
    (CLIENT_PROFILES, _profiles(ProfileKind.CLIENT, ClientProfileSettings)),
    (ACL_PROFILES, _profiles(ProfileKind.ACL, AclProfileSettings)),
    (LINKS, Verbs(create=_create_link, delete=_delete_link, change=_change_link)),
    (REMOTE_ADDRESSES, Verbs(create=_create_remote_address, delete=_delete_remote_address)),
    *((ACL_EXCEPTIONS[kind], _exceptions(kind, field)) for kind, (field, _) in EXCEPTIONS.items()),
)


def changing(resource: Resource, verbs: Verbs) -> list[SempOperation]:
    """Return the write operations of a resource."""
    operations = [_creating(resource, verbs.create)]
    if verbs.change is not None:
        operations.append(_altering("PATCH", "Change the settings in the body of", resource, verbs.change))
    if verbs.replace is not None:
        summary = "Create or replace, with defaults for settings that are not in the body,"
        operations.append(_altering("PUT", summary, resource, verbs.replace))
    return [*operations, _deleting(resource, verbs.delete)]


def _creating(resource: Resource, create: Changing) -> SempOperation:
    kind = resource.kind

    async def perform(node: NodeInterface, request: Request, asked: Asked) -> Document:
        parents, query = resource.parents_of(request), query_of_one(resource, request)
        fields = kind.fields(await json_object(request), parents)
        name = KEYS_APART.join(_text_in(fields, kind.attribute(each)) for each in kind.keys)
        with _in_words_of(kind):
            await create(node, list(parents.values()), fields)
        return await answer_with(node, resource, parents, name, query, asked, uri=asked.below(name))

    schema = {**object_schema(kind, _settable(kind)), "required": [*kind.keys], "additionalProperties": False}
    return SempOperation(
        method="POST", path=resource.path, summary=f"Create a {kind.kind}", perform=perform, kind=kind, body=schema
    )


def _altering(method: Literal["PATCH", "PUT"], words: str, resource: Resource, change: Changing) -> SempOperation:
    kind = resource.kind

    async def perform(node: NodeInterface, request: Request, asked: Asked) -> Document:
        parents, query = resource.parents_of(request), query_of_one(resource, request)
        name = path_name(request, kind.key)
        fields = kind.fields(await json_object(request), {**parents, kind.key: name})
        with _in_words_of(kind):
            await change(node, [*parents.values(), name], {**fields, kind.attribute(kind.key).field: name})
        return await answer_with(node, resource, parents, name, query, asked, uri=asked.path)

    schema = {**object_schema(kind, _settable(kind)), "additionalProperties": False}
    return SempOperation(
        method=method,
        path=resource.object_path,
        summary=f"{words} a {kind.kind}",
        perform=perform,
        kind=kind,
        body=schema,
    )


def _deleting(resource: Resource, delete: Deleting) -> SempOperation:
    async def perform(node: NodeInterface, request: Request, asked: Asked) -> Document:
        parents = resource.parents_of(request)
        query_of_one(resource, request)  # an invalid query stops the operation
        await delete(node, [*parents.values(), resource.name_in(request)])
        return answer_of_done(asked)

    return SempOperation(
        method="DELETE", path=resource.object_path, summary=f"Delete a {resource.kind.kind}", perform=perform
    )


def _text_in(fields: Fields, attribute: SempAttribute[Any]) -> str:
    """Return an attribute that a body must set. Raises SempError."""
    value = fields.get(attribute.field)
    if not isinstance(value, str) or not value:
        reason = f"{quoted(value)} is not allowed" if attribute.field in fields else "it is missing"
        raise invalid_parameter(f"{attribute.name}: {reason}; allowed: a text that is not empty")
    return value


def _settable(kind: SempObject[Any]) -> list[str]:
    return [each.name for each in kind.attributes if each.field]


@contextmanager
def _in_words_of(kind: SempObject[Any]) -> Iterator[None]:
    """Turn an error about a field into one about the attribute."""
    try:
        yield
    except QueueInvalid as wrong:
        text = f"{kind.name_of(wrong.field)}: {wrong.text}"
        raise invalid_parameter(text) from None
