"""The table of subcommands. A subcommand's module is imported when it is called, or to list all of them with `--help`.

Importing all of them takes a second, because together they need most of the gateway; one of them takes a tenth of that.
"""

import gc
from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import typer
from typer.core import TyperCommand

from sluicegate.gateway.cli.terminal.failures import ReportingGroup, show_flags


class Place(NamedTuple):
    """Where a command is defined."""

    module: str  # of sluicegate.gateway.cli
    member: str = "app"  # a function, or a typer.Typer with subcommands
    is_program: bool = False  # another program parses the arguments, including `--help`


COMMANDS: Final[Mapping[str, Place]] = MappingProxyType(
    {
        "serve": Place("commands.node.node", "serve"),
        "check-config": Place("commands.node.node", "check_config"),
        "doctor": Place("commands.node.doctor", "doctor"),
        "import": Place("commands.imports"),
        "hash-password": Place("commands.node.node", "hash_password"),
        "pub": Place("commands.mqtt.publish", "pub"),
        "sub": Place("commands.mqtt.subscribe", "sub"),
        "vpn": Place("commands.vpns"),
        "queue": Place("commands.queues.queues"),
        "template": Place("commands.queues.templates"),
        "selector": Place("commands.queues.selectors"),
        "rest-delivery-point": Place("commands.rest_delivery_points"),
        "link": Place("commands.links"),
        "cluster": Place("commands.cluster"),
        "replication": Place("commands.replication"),
        "bridge": Place("commands.bridges"),
        "user": Place("commands.users"),
        "client-profile": Place("commands.clients.profiles", "client_profiles"),
        "acl-profile": Place("commands.clients.profiles", "acl_profiles"),
        "client": Place("commands.clients.clients"),
        "subscription": Place("commands.clients.subscriptions"),
        "session": Place("commands.clients.sessions"),
        "retained": Place("commands.clients.retained"),
        "listener": Place("commands.clients.listeners"),
        "context": Place("commands.contexts"),
        "config": Place("commands.config.definitions"),
        "reload": Place("commands.node.reload", "reload"),
        "explain": Place("commands.queues.explain"),
        "show": Place("commands.show.show"),
        "backup": Place("commands.node.backup", "backup"),
        "backup-status": Place("commands.node.backup", "backup_status"),
        "backup-cancel": Place("commands.node.backup", "backup_cancel"),
        "restore": Place("commands.node.backup", "restore"),
        "bench": Place("bench.command", "bench"),
        "actors": Place("commands.node.actors", "actors"),
        "events": Place("commands.node.events", "events"),
        "top": Place("commands.node.top", "top"),
        "pipeline": Place("app", "pipeline", is_program=True),
        "version": Place("app", "version"),
    }
)


class LateCommands(ReportingGroup):
    """The group of COMMANDS. It holds only the names of those not imported yet, for lists and suggestions."""

    def __init__(self, **settings: Any) -> None:  # as in the base class
        super().__init__(**settings)
        self._not_imported = dict(COMMANDS)
        self.commands.update({name: TyperCommand(name) for name in COMMANDS})

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # as in the base class
        """Return a command, None for an unknown name."""
        if cmd_name in self._not_imported:
            self.commands[cmd_name] = _imported(cmd_name, self._not_imported.pop(cmd_name))
        return super().get_command(ctx, cmd_name)


def _imported(name: str, place: Place) -> Any:
    gc.disable()  # imported objects stay, so collecting during the import is wasted work
    try:
        found = getattr(import_module(f"sluicegate.gateway.cli.{place.module}"), place.member)
    finally:
        gc.enable()
    holder = typer.Typer()
    if isinstance(found, typer.Typer):
        holder.add_typer(found, name=name)
    elif place.is_program:
        passed_on = {"allow_extra_args": True, "ignore_unknown_options": True}
        holder.command(name, add_help_option=False, context_settings=passed_on)(found)
    else:
        holder.command(name)(found)
    show_flags(holder)
    return typer.main.get_group(holder).commands[name]
