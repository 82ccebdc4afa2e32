"""The table of subcommands. A subcommand's module is imported when it is called.

`--help` and completion in a shell list all of them without importing any: together they need most of the gateway, which
takes a second.
"""

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import typer
from typer.core import TyperCommand

from sluicegate.gateway.cli.terminal.failures import ReportingGroup, show_flags


class Place(NamedTuple):
    """What a command does, in its own first sentence, and where it is defined."""

    summary: str
    module: str  # of sluicegate.gateway.cli
    member: str = "app"  # a function, or a typer.Typer with subcommands
    is_program: bool = False  # another program parses the arguments, including `--help`


RUN: Final = "Run a gateway"
MESSAGES: Final = "Publish and consume"
QUEUES: Final = "Queues and topics"
CLIENTS: Final = "Clients and their rights"
SYSTEMS: Final = "Message VPNs, and other systems"
WATCH: Final = "See what happens"
ABOUT: Final = "This command"

PANELS: Final[Mapping[str, Mapping[str, Place]]] = MappingProxyType(
    {
        RUN: {
            "serve": Place("Run the gateway in the foreground until SIGTERM or Ctrl-C.", "commands.node.node", "serve"),
            "check-config": Place("Check the configuration.", "commands.node.node", "check_config"),
            "reload": Place("Reload the node's configuration, as SIGHUP does.", "commands.node.reload", "reload"),
            "config": Place("Export and apply what operators created, as one document.", "commands.config.definitions"),
            "import": Place(
                "Take over the configuration of another broker, and report what differs.", "commands.imports"
            ),
            "hash-password": Place("Read a password and print its hash.", "commands.node.node", "hash_password"),
            "doctor": Place("Check a stopped node or a backup, without changing it.", "commands.node.doctor", "doctor"),
            "backup": Place("Back up the spool of the running gateway.", "commands.node.backup", "backup"),
            "backup-status": Place("Show the progress of the latest backup.", "commands.node.backup", "backup_status"),
            "backup-cancel": Place(
                "Cancel the running backup and remove its files.", "commands.node.backup", "backup_cancel"
            ),
            "restore": Place("Restore a backup into an empty data folder.", "commands.node.backup", "restore"),
        },
        MESSAGES: {
            "pub": Place(
                "Publish messages and wait until the gateway has confirmed them.", "commands.mqtt.publish", "pub"
            ),
            "sub": Place("Print messages until Ctrl-C.", "commands.mqtt.subscribe", "sub"),
            "bench": Place("Publish and consume at a fixed rate, and check what arrives.", "bench.command", "bench"),
            "pipeline": Place("Run Spark jobs on queues.", "app", "pipeline", is_program=True),
        },
        QUEUES: {
            "queue": Place("Create, inspect and delete queues.", "commands.queues.queues"),
            "template": Place("Queue templates: attributes for new queues, by name.", "commands.queues.templates"),
            "selector": Place("Durable selectors of consumers of virtual topics.", "commands.queues.selectors"),
            "subscription": Place("Subscriptions of clients and queues.", "commands.clients.subscriptions"),
            "retained": Place("Retained messages.", "commands.clients.retained"),
            "explain": Place("Explain where messages go and why they wait.", "commands.queues.explain"),
        },
        CLIENTS: {
            "client": Place("Connected clients.", "commands.clients.clients"),
            "session": Place("MQTT sessions.", "commands.clients.sessions"),
            "listener": Place("Open ports for clients.", "commands.clients.listeners"),
            "user": Place("Users: the accounts with which clients connect.", "commands.users"),
            "client-profile": Place(
                "Client profiles: what clients may do, and how much.", "commands.clients.profiles", "client_profiles"
            ),
            "acl-profile": Place(
                "ACL profiles: from where clients connect, and their topics.",
                "commands.clients.profiles",
                "acl_profiles",
            ),
        },
        SYSTEMS: {
            "vpn": Place("Message VPNs: separate messaging domains of one gateway.", "commands.vpns"),
            "rest-delivery-point": Place(
                "REST delivery points, which push queues to web servers.", "commands.rest_delivery_points"
            ),
            "bridge": Place("Bridges to foreign brokers.", "commands.bridges"),
            "link": Place("Links to other brokers of the network.", "commands.links"),
            "cluster": Place("Replicas of a broker on several machines.", "commands.cluster"),
            "replication": Place("A broker at two sites.", "commands.replication"),
        },
        WATCH: {
            "top": Place("Show the busiest queues and clients, and the node's totals.", "commands.node.top", "top"),
            "actors": Place("Show every actor, until `q` or Ctrl-C is pressed.", "commands.node.actors", "actors"),
            "events": Place("Print recent events, oldest first.", "commands.node.events", "events"),
            "show": Place("Show the state of a node, under the names of the Solace CLI.", "commands.show.show"),
        },
        ABOUT: {
            "context": Place(
                "Gateways under names, from which commands take addresses and logins.", "commands.contexts"
            ),
            "version": Place("Print the release, and whether its modules are compiled.", "app", "version"),
        },
    }
)
COMMANDS: Final[Mapping[str, Place]] = MappingProxyType(
    {name: place for panel in PANELS.values() for name, place in panel.items()}
)


class LateCommands(ReportingGroup):
    """The group of COMMANDS. It has the name and the summary of those that are not imported yet."""

    def __init__(self, **settings: Any) -> None:  # as in the base class
        super().__init__(**settings)
        self._not_imported = dict(COMMANDS)
        self._is_listing = False
        for panel, places in PANELS.items():
            for name, place in places.items():
                self.commands[name] = TyperCommand(name, short_help=place.summary, rich_help_panel=panel)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # as in the base class
        """Return a command, None for an unknown name."""
        if not self._is_listing and cmd_name in self._not_imported:
            self.commands[cmd_name] = _imported(cmd_name, self._not_imported.pop(cmd_name))
        return super().get_command(ctx, cmd_name)

    def format_help(self, ctx: Any, formatter: Any) -> None:  # as in the base class
        """Write the help, with the summary of each command."""
        with self._listing():
            super().format_help(ctx, formatter)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:  # as in the base class
        """Return the commands that begin so, with their summaries."""
        with self._listing():
            return super().shell_complete(ctx, incomplete)

    @contextmanager
    def _listing(self) -> Iterator[None]:
        """Import no command that is only listed."""
        self._is_listing = True
        try:
            yield
        finally:
            self._is_listing = False


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
