"""`sluicegate user ...`: the accounts of clients, made while the gateway runs.

Those of the configuration are listed as well, and changed there.
"""

from typing import Annotated, Final

import typer

from sluicegate.gateway.cli.admin.client import URL_DEFAULT, UrlOption, VpnOption
from sluicegate.gateway.cli.admin.objects import AdminObjects
from sluicegate.gateway.cli.terminal.failures import USAGE, CommandFailed
from sluicegate.gateway.cli.terminal.output import JsonOption, print_json, print_table
from sluicegate.gateway.cli.terminal.passwords import PasswordFileOption, new_password
from sluicegate.gateway.views.accounts import UserView
from sluicegate.messaging.clients.roster import DEFAULT
from sluicegate.messaging.message.vpn import DEFAULT_VPN

app = typer.Typer(help="Users: the accounts of clients.", no_args_is_help=True)

COLUMNS: Final = ("name", "origin", "state", "client profile", "ACL profile", "connections")

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The user's name.")]


@app.command("list")
def list_users(url: UrlOption = URL_DEFAULT, vpn: VpnOption = DEFAULT_VPN, as_json: JsonOption = False) -> None:
    """List all users of a message VPN, those of its configuration too."""
    view = AdminObjects(url, vpn).list_users()
    if as_json:
        print_json(view)
        return
    print_table(
        COLUMNS,
        [
            (each.name, each.origin, _state(each), each.client_profile, each.acl_profile, each.connected_count)
            for each in view.users
        ],
    )


@app.command("add")
def add(
    name: NameArgument,
    client_profile: Annotated[str, typer.Option(metavar="NAME", help="What its clients may do at all.")] = DEFAULT,
    acl_profile: Annotated[str, typer.Option(metavar="NAME", help="Which topics its clients may use.")] = DEFAULT,
    disabled: Annotated[bool, typer.Option("--disabled", help="Its clients may not connect yet.")] = False,
    password_file: PasswordFileOption = None,
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
    as_json: JsonOption = False,
) -> None:
    """Make a user. Its password is asked for, or read from a file or standard input."""
    client = AdminObjects(url, vpn)
    asked = {
        "name": name,
        "password": new_password(password_file),
        "client_profile": client_profile,
        "acl_profile": acl_profile,
        "enabled": not disabled,
    }
    _done(client.create_user(asked), f"made user {name}", as_json)


@app.command("passwd")
def passwd(
    name: NameArgument,
    password_file: PasswordFileOption = None,
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
    as_json: JsonOption = False,
) -> None:
    """Give a user another password, for whoever connects from now on."""
    client = AdminObjects(url, vpn)
    view = client.update_user(name, {"password": new_password(password_file)})
    _done(view, f"user {name} has another password", as_json)


@app.command("set")
def change(
    name: NameArgument,
    client_profile: Annotated[str | None, typer.Option(metavar="NAME", help="Another client profile.")] = None,
    acl_profile: Annotated[str | None, typer.Option(metavar="NAME", help="Another ACL profile.")] = None,
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
    as_json: JsonOption = False,
) -> None:
    """Give a user other profiles, for its clients that are connected as well."""
    asked = {"client_profile": client_profile, "acl_profile": acl_profile}
    changes: dict[str, object] = {key: value for key, value in asked.items() if value is not None}
    if not changes:
        raise CommandFailed("nothing to change: --client-profile or --acl-profile", exit_code=USAGE)
    _done(AdminObjects(url, vpn).update_user(name, changes), f"changed user {name}", as_json)


@app.command("disable")
def disable(
    name: NameArgument, url: UrlOption = URL_DEFAULT, vpn: VpnOption = DEFAULT_VPN, as_json: JsonOption = False
) -> None:
    """Shut a user down: its clients are sent away, and may not connect."""
    _done(AdminObjects(url, vpn).update_user(name, {"enabled": False}), f"user {name} is shut down", as_json)


@app.command("enable")
def enable(
    name: NameArgument, url: UrlOption = URL_DEFAULT, vpn: VpnOption = DEFAULT_VPN, as_json: JsonOption = False
) -> None:
    """Let the clients of a user that was shut down connect again."""
    _done(AdminObjects(url, vpn).update_user(name, {"enabled": True}), f"clients of user {name} may connect", as_json)


@app.command("remove")
def remove(
    name: NameArgument, url: UrlOption = URL_DEFAULT, vpn: VpnOption = DEFAULT_VPN, as_json: JsonOption = False
) -> None:
    """Delete a user. Its clients are sent away; its sessions and queues stay."""
    AdminObjects(url, vpn).delete_user(name)
    if as_json:
        print_json({"deleted": name})
    else:
        typer.echo(f"deleted user {name}")


def _state(user: UserView) -> str:
    if not user.enabled:
        return "shut down"
    return f"shut down: {user.reason}" if user.reason else "enabled"


def _done(view: UserView, text: str, as_json: bool) -> None:
    if as_json:
        print_json(view)
    else:
        typer.echo(text)
