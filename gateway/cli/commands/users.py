"""`sluicegate user ...`: create and change client accounts on a running gateway.

`list` also shows the users of the configuration, which can be changed only there.
"""

from typing import Annotated, Final

import typer

from sluicegate.gateway.cli.admin.client import URL_DEFAULT, UrlOption, VpnOption
from sluicegate.gateway.cli.admin.objects import AdminObjects
from sluicegate.gateway.cli.terminal.credentials import PasswordFileOption, new_password
from sluicegate.gateway.cli.terminal.failures import USAGE, CommandFailed
from sluicegate.gateway.cli.terminal.output import JsonOption, print_json, print_table
from sluicegate.gateway.views.clients.accounts import UserView
from sluicegate.messaging.clients.roster import DEFAULT
from sluicegate.messaging.message.vpn import DEFAULT_VPN

app = typer.Typer(help="Users: the accounts with which clients connect.", no_args_is_help=True)

COLUMNS: Final = ("name", "origin", "state", "client profile", "ACL profile", "connections")

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the user.")]


@app.command("list")
def list_users(url: UrlOption = URL_DEFAULT, vpn: VpnOption = DEFAULT_VPN, as_json: JsonOption = False) -> None:
    """List all users of a message VPN, including those of the configuration."""
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
    client_profile: Annotated[
        str, typer.Option(metavar="NAME", help="Client profile: what its clients may do.")
    ] = DEFAULT,
    acl_profile: Annotated[
        str, typer.Option(metavar="NAME", help="ACL profile: the topics that its clients may use.")
    ] = DEFAULT,
    disabled: Annotated[
        bool, typer.Option("--disabled", help="Create the user shut down: its clients cannot connect.")
    ] = False,
    password_file: PasswordFileOption = None,
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
    as_json: JsonOption = False,
) -> None:
    """Create a user. The password comes from a prompt, a file or standard input."""
    client = AdminObjects(url, vpn)
    asked = {
        "name": name,
        "password": new_password(password_file),
        "client_profile": client_profile,
        "acl_profile": acl_profile,
        "enabled": not disabled,
    }
    _done(client.create_user(asked), f"created user {name}", as_json)


@app.command("passwd")
def passwd(
    name: NameArgument,
    password_file: PasswordFileOption = None,
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
    as_json: JsonOption = False,
) -> None:
    """Change the password of a user. Connected clients stay connected."""
    client = AdminObjects(url, vpn)
    view = client.update_user(name, {"password": new_password(password_file)})
    _done(view, f"changed the password of user {name}", as_json)


@app.command("set")
def change(
    name: NameArgument,
    client_profile: Annotated[str | None, typer.Option(metavar="NAME", help="New client profile.")] = None,
    acl_profile: Annotated[str | None, typer.Option(metavar="NAME", help="New ACL profile.")] = None,
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
    as_json: JsonOption = False,
) -> None:
    """Change the profiles of a user. The change also applies to connected clients."""
    asked = {"client_profile": client_profile, "acl_profile": acl_profile}
    changes: dict[str, object] = {key: value for key, value in asked.items() if value is not None}
    if not changes:
        raise CommandFailed("nothing to change: give --client-profile or --acl-profile", exit_code=USAGE)
    _done(AdminObjects(url, vpn).update_user(name, changes), f"changed user {name}", as_json)


@app.command("disable")
def disable(
    name: NameArgument, url: UrlOption = URL_DEFAULT, vpn: VpnOption = DEFAULT_VPN, as_json: JsonOption = False
) -> None:
    """Shut down a user: its clients are disconnected and cannot connect again."""
    _done(AdminObjects(url, vpn).update_user(name, {"enabled": False}), f"shut down user {name}", as_json)


@app.command("enable")
def enable(
    name: NameArgument, url: UrlOption = URL_DEFAULT, vpn: VpnOption = DEFAULT_VPN, as_json: JsonOption = False
) -> None:
    """Enable a user, so that its clients can connect again."""
    _done(AdminObjects(url, vpn).update_user(name, {"enabled": True}), f"enabled user {name}", as_json)


@app.command("remove")
def remove(
    name: NameArgument, url: UrlOption = URL_DEFAULT, vpn: VpnOption = DEFAULT_VPN, as_json: JsonOption = False
) -> None:
    """Delete a user. Its clients are disconnected; their sessions and queues stay."""
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
