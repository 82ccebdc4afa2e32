"""`sluicegate context ...`: gateways under names, so that commands need no addresses."""

import os
from typing import Annotated, Final

import typer

from sluicegate.gateway.cli.terminal.contexts import (
    NAME,
    Context,
    contexts_file,
    read_contexts,
    write_contexts,
)
from sluicegate.gateway.cli.terminal.failures import USAGE, CommandFailed
from sluicegate.gateway.cli.terminal.output import JsonOption, print_json, print_table

app = typer.Typer(help="Gateways under names, from which commands take addresses and logins.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the context.")]
NAME_ALLOWED: Final = "1 to 64 of A-Z a-z 0-9 . _ -, and it begins with a letter or digit"


@app.command("add")
def add(
    name: NameArgument,
    url: Annotated[str | None, typer.Option("--url", help="Admin port: http://HOST:PORT.")] = None,
    vpn: Annotated[str | None, typer.Option("--vpn", metavar="NAME", help="Message VPN.")] = None,
    admin_username: Annotated[
        str | None, typer.Option("--admin-username", metavar="NAME", help="Account for the admin port.")
    ] = None,
    admin_password_file: Annotated[
        str | None, typer.Option("--admin-password-file", metavar="FILE", help="File with its password.")
    ] = None,
    admin_token_file: Annotated[
        str | None, typer.Option("--admin-token-file", metavar="FILE", help="File with a bearer token instead.")
    ] = None,
    host: Annotated[str | None, typer.Option("--host", help="Host for `pub` and `sub`.")] = None,
    port: Annotated[int | None, typer.Option("--port", min=1, max=65535, help="MQTT port.")] = None,
    tls: Annotated[bool | None, typer.Option("--tls/--no-tls", help="Whether `pub` and `sub` use TLS.")] = None,
    flow_url: Annotated[
        str | None, typer.Option("--flow-url", help="Address for `bench`: flow://HOST[:PORT], or flows://.")
    ] = None,
    username: Annotated[str | None, typer.Option("--username", help="User name of `pub`, `sub` and `bench`.")] = None,
    password_file: Annotated[
        str | None, typer.Option("--password-file", metavar="FILE", help="File with its password.")
    ] = None,
    description: Annotated[str | None, typer.Option("--description", metavar="TEXT", help="Any text.")] = None,
    select: Annotated[bool, typer.Option("--select", help="Select it as well.")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Take the place of one of this name.")] = False,
) -> None:
    """Add a context. What it leaves out has the default of each command. Files are named, and read when needed."""
    contexts = read_contexts()
    if NAME.fullmatch(name) is None:
        raise CommandFailed(f"{name!r} is no name for a context; allowed: {NAME_ALLOWED}", exit_code=USAGE)
    if name in contexts.by_name and not replace:
        raise CommandFailed(f"there is a context {name!r} already", advice="--replace takes its place.")
    if url is None and (admin_username or admin_password_file or admin_token_file):
        text = "the account of a context is used at its own admin port only, and this context has none"
        raise CommandFailed(text, exit_code=USAGE, advice="--url names it.")
    contexts.by_name[name] = Context(
        url=url,
        vpn=vpn,
        admin_username=admin_username,
        admin_password_file=_absolute(admin_password_file),
        admin_token_file=_absolute(admin_token_file),
        host=host,
        port=port,
        tls=tls,
        flow_url=flow_url,
        username=username,
        password_file=_absolute(password_file),
        description=description,
    )
    if select:
        contexts.selected = name
    write_contexts(contexts)
    typer.echo(f"added context {name} to {contexts_file()}{', and selected it' if select else ''}")


def _absolute(file: str | None) -> str | None:
    """Return the path of a file for commands in any folder."""
    return None if file is None else os.path.abspath(os.path.expanduser(file))


@app.command("list")
def list_contexts(as_json: JsonOption = False) -> None:
    """List the contexts; the selected one has a *."""
    contexts = read_contexts()
    if as_json:
        found = {name: each.given() for name, each in sorted(contexts.by_name.items())}
        print_json({"selected": contexts.selected, "contexts": found})
        return
    rows = [
        (
            "*" if name == contexts.selected else "",
            name,
            each.url or "-",
            each.vpn or "-",
            each.admin_username or "-",
            each.description or "",
        )
        for name, each in sorted(contexts.by_name.items())
    ]
    print_table(("", "context", "admin port", "message VPN", "account", "description"), rows)


@app.command("show")
def show(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Name of the context. Default: the selected one.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show one context."""
    contexts = read_contexts()
    chosen = name or contexts.selected
    if chosen is None:
        raise CommandFailed("no context is selected", exit_code=USAGE, advice="`sluicegate context select NAME`")
    found = contexts.named(chosen)
    if as_json:
        print_json({"name": chosen, "selected": chosen == contexts.selected, **found.given()})
        return
    print_table(
        ("", ""), [("context", chosen), *[(key.replace("_", "-"), each) for key, each in found.given().items()]]
    )


@app.command("select")
def select(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Name of the context.")] = None,
    none: Annotated[bool, typer.Option("--none", help="Select none: commands have their own defaults.")] = False,
) -> None:
    """Select the context that commands use unless they are told otherwise."""
    contexts = read_contexts()
    if (name is None) != none:
        raise CommandFailed("give the name of a context, or --none", exit_code=USAGE)
    if name is not None:
        contexts.named(name)
    contexts.selected = name
    write_contexts(contexts)
    typer.echo("no context is selected" if name is None else f"selected context {name}")


@app.command("remove")
def remove(name: NameArgument) -> None:
    """Remove a context. The files that it names stay."""
    contexts = read_contexts()
    contexts.named(name)
    del contexts.by_name[name]
    if contexts.selected == name:
        contexts.selected = None
    write_contexts(contexts)
    typer.echo(f"removed context {name}")
