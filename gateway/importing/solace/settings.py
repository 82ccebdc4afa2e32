"""Attributes of SEMP as settings, by the tables that our own SEMP has, one attribute after the other.

Dumps leave out what has its default there. Where our default is another one, and would allow more, Solace's is written.
"""

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any, Final

from sluicegate.gateway.admin.semp.errors import SempError
from sluicegate.gateway.admin.semp.objects.attributes import SempObject
from sluicegate.gateway.importing.json_text import Item
from sluicegate.gateway.importing.report import Report

NOTHING_LIKE_IT: Final = "there is nothing like it here"
PARENTS: Final = ("msgVpnName", "queueName", "aclProfileName", "bridgeName", "bridgeVirtualRouter")
ABOUT_THE_OBJECT: Final = ("uri", "links", "meta", "collections")

Problem = Callable[[dict[str, Any]], str]  # why settings are not allowed together; empty: they are


def take_settings(
    item: Item, kind: SempObject[Any], made: dict[str, Any], problem: Problem, report: Report, *, apart: Collection[str]
) -> None:
    """Put the attributes of an object into `made`. Those in `apart` are taken elsewhere, as are lists and objects."""
    fields = {each.name: each for each in kind.attributes if each.field}
    known = [kind.key, *ABOUT_THE_OBJECT, *[each for each in PARENTS if each not in fields]]
    skipped = {*known, *apart}
    item.skip(*known)
    for name, value in item.values.items():
        if name in skipped or (isinstance(value, list | dict) and name not in fields):
            continue
        setting = item.setting(name)
        if name not in fields:
            if value is False:
                report.taken(setting, f"off; {NOTHING_LIKE_IT}")
            else:
                report.not_taken(setting, NOTHING_LIKE_IT)
            continue
        field = fields[name].field
        try:
            given = {field: fields[name].write(value)}
        except SempError as error:
            report.not_taken(setting, str(error))
            continue
        wrong = problem({**made, **given})
        if wrong:
            report.not_taken(setting, wrong)
        else:
            made |= given
            report.taken(setting, f"{field}: {_shown(given[field])}")


def _shown(value: object) -> object:
    """Return a value as YAML has it."""
    return str(value).lower() if isinstance(value, bool) else value


def with_defaults(item: Item, made: dict[str, Any], defaults: Mapping[str, tuple[str, Any]], report: Report) -> None:
    """Write Solace's default where the source has none: by its name, our field and the value."""
    for name, (field, value) in defaults.items():
        if name not in item.values:
            made[field] = value
            report.taken(item.setting(), f"{field}: {_shown(value)}, Solace's default")
        else:
            made.setdefault(field, value)  # where the value there cannot be taken


QUEUE_DEFAULTS: Final[Mapping[str, tuple[str, Any]]] = MappingProxyType(
    {
        "ingressEnabled": ("ingress_enabled", False),
        "egressEnabled": ("egress_enabled", False),
        "permission": ("permission", "no-access"),
    }
)
ACL_DEFAULTS: Final[Mapping[str, tuple[str, Any]]] = MappingProxyType(
    {"clientConnectDefaultAction": ("client_connect_default_action", "disallow")}
)
CLIENT_DEFAULTS: Final[Mapping[str, tuple[str, Any]]] = MappingProxyType(
    {
        "allowGuaranteedEndpointCreateEnabled": ("allow_guaranteed_endpoint_create_enabled", False),
        "allowGuaranteedMsgReceiveEnabled": ("allow_guaranteed_msg_receive_enabled", False),
        "allowGuaranteedMsgSendEnabled": ("allow_guaranteed_msg_send_enabled", False),
        "allowSharedSubscriptionsEnabled": ("allow_shared_subscriptions_enabled", False),
        "allowTransactedSessionsEnabled": ("allow_transacted_sessions_enabled", False),
    }
)
