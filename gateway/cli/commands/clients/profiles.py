"""`sluicegate client-profile ...` and `sluicegate acl-profile ...`: what the profiles of users permit.

`sluicegate config apply` creates and changes them.
"""

from collections.abc import Sequence
from typing import Annotated

import typer

from sluicegate.gateway.cli.admin.client import URL_DEFAULT, UrlOption, VpnOption
from sluicegate.gateway.cli.admin.objects import AdminObjects
from sluicegate.gateway.cli.terminal.output import JsonOption, print_json, print_table
from sluicegate.gateway.config.allowed import shown
from sluicegate.gateway.views.clients.accounts import AclProfileView, ClientProfileView, ProfileKind
from sluicegate.messaging.clients.limits import COUNT_MAX, UNLIMITED
from sluicegate.messaging.message.vpn import DEFAULT_VPN

client_profiles = typer.Typer(help="Client profiles: what clients may do, and how much.", no_args_is_help=True)
acl_profiles = typer.Typer(help="ACL profiles: from where clients connect, and their topics.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the profile.")]


@client_profiles.command("list")
def list_client_profiles(
    url: UrlOption = URL_DEFAULT, vpn: VpnOption = DEFAULT_VPN, as_json: JsonOption = False
) -> None:
    """List the client profiles of a message VPN, including those of the configuration."""
    views = AdminObjects(url, vpn).list_profiles().client_profiles
    if as_json:
        print_json(views)
        return
    columns = ("name", "origin", "send", "receive", "queues", "connections", "flows", "subscriptions", "messages/s")
    print_table(columns, [_client_row(each) for each in views])


def _client_row(view: ClientProfileView) -> tuple[object, ...]:
    return (
        view.name,
        view.origin,
        _allowed(view.allow_guaranteed_msg_send_enabled),
        _allowed(view.allow_guaranteed_msg_receive_enabled),
        _allowed(view.allow_guaranteed_endpoint_create_enabled),
        _limit(view.max_connection_count, COUNT_MAX),
        _limit(view.max_egress_flow_count, COUNT_MAX),
        _limit(view.max_subscription_count, COUNT_MAX),
        _limit(view.max_msg_rate, UNLIMITED),
    )


def _allowed(allowed: bool) -> str:
    return "yes" if allowed else "no"


def _limit(limit: int, none: int) -> str:
    return "no limit" if limit == none else str(limit)


@client_profiles.command("show")
def show_client_profile(
    name: NameArgument, url: UrlOption = URL_DEFAULT, vpn: VpnOption = DEFAULT_VPN, as_json: JsonOption = False
) -> None:
    """Show one client profile with all of its settings."""
    _show(AdminObjects(url, vpn).show_profile(ProfileKind.CLIENT, name), as_json)


@acl_profiles.command("list")
def list_acl_profiles(url: UrlOption = URL_DEFAULT, vpn: VpnOption = DEFAULT_VPN, as_json: JsonOption = False) -> None:
    """List the ACL profiles of a message VPN, including those of the configuration."""
    views = AdminObjects(url, vpn).list_profiles().acl_profiles
    if as_json:
        print_json(views)
        return
    columns = ("name", "origin", "connect", "publish", "subscribe", "share names")
    print_table(columns, [_acl_row(each) for each in views])


def _acl_row(view: AclProfileView) -> tuple[object, ...]:
    return (
        view.name,
        view.origin,
        _rule(view.client_connect_default_action, view.client_connect_exceptions),
        _rule(view.publish_topic_default_action, view.publish_topic_exceptions),
        _rule(view.subscribe_topic_default_action, view.subscribe_topic_exceptions),
        _rule(view.subscribe_share_name_default_action, view.subscribe_share_name_exceptions),
    )


def _rule(action: str, exceptions: Sequence[object]) -> str:
    return f"{action}, but {len(exceptions)}" if exceptions else action


@acl_profiles.command("show")
def show_acl_profile(
    name: NameArgument, url: UrlOption = URL_DEFAULT, vpn: VpnOption = DEFAULT_VPN, as_json: JsonOption = False
) -> None:
    """Show one ACL profile: its default actions, and each exception."""
    _show(AdminObjects(url, vpn).show_profile(ProfileKind.ACL, name), as_json)


def _show(view: ClientProfileView | AclProfileView, as_json: bool) -> None:
    if as_json:
        print_json(view)
        return
    rows: list[tuple[str, object]] = []
    for name, value in view.to_dict().items():
        if not isinstance(value, list):
            rows.append((name, shown(value)))
            continue
        texts = [f"{each['topic']} ({each['syntax']})" if isinstance(each, dict) else str(each) for each in value]
        rows += [(name if not number else "", text) for number, text in enumerate(texts or ["none"])]
    print_table(("setting", "value"), rows)
