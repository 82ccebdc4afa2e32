"""`sluicegate cluster ...`: the replicas of a broker, and a cluster on this machine to try it."""

import importlib.util
from pathlib import Path
from typing import Annotated, Final

import typer

from sluicegate.gateway.cli.admin.client import URL_DEFAULT, UrlOption
from sluicegate.gateway.cli.admin.objects import AdminObjects
from sluicegate.gateway.cli.terminal.failures import USAGE, CommandFailed
from sluicegate.gateway.cli.terminal.output import JsonOption, print_json, print_table, time_text
from sluicegate.gateway.config.allowed import shown
from sluicegate.gateway.config.sections.values import rounded_size
from sluicegate.gateway.views.cluster import ClusterBrokersView, LogView, ReplicaView
from sluicegate.gateway.views.errors import CannotStart

app = typer.Typer(help="Replicas of a broker on several machines.", no_args_is_help=True)


COLUMNS: Final = (
    "role",
    "caught up",
    "messages behind",
    "bytes",
    "hold",
    "release",
    "reads level",
    "admin port",
    "problem",
)

AllOption = Annotated[bool, typer.Option("--all", help="All brokers of the cluster, in place of this one's replicas.")]


@app.command("status")
def status(url: UrlOption = URL_DEFAULT, every: AllOption = False, as_json: JsonOption = False) -> None:
    """Show which replica owns the broker, and how far the others are. Any replica may be asked."""
    if every:
        _show_brokers(AdminObjects(url).cluster_brokers(), as_json=as_json)
        return
    view = AdminObjects(url).cluster()
    if as_json:
        print_json(view)
        return
    typer.echo(f"broker {view.broker}, owned by {view.owner or 'no replica that is known'}, epoch {view.epoch}")
    size, size_max = rounded_size(view.log_bytes), rounded_size(view.log_bytes_max)
    typer.echo(f"log: stream {view.stream}, {size} of {size_max}, feature level {view.level}")
    if view.log is not None:
        for line in _snapshot_lines(view.log):
            typer.echo(line)
    if view.clock_ahead_ms:
        typer.echo(f"the clock of {view.replica} is {view.clock_ahead_ms / 1000:.0f} s ahead of the log: not used")
    print_table(("replica", *COLUMNS), [(each.name, *_cells(each)) for each in view.replicas])


def _snapshot_lines(log: LogView) -> list[str]:
    if log.snapshot_position:
        size, behind = rounded_size(log.snapshot_bytes), rounded_size(log.bytes_behind_snapshot)
        lines = [f"newest snapshot: {time_text(log.snapshot_taken_ms)}, {size}; {behind} of the log since"]
    else:
        lines = ["no snapshot yet: the log has everything"]
    if log.last_try_problem:
        lines.append(f"no snapshot could be made {time_text(log.last_try_ms)}: {log.last_try_problem}")
    return lines


def _cells(replica: ReplicaView) -> tuple[object, ...]:
    return (
        replica.role,
        shown(replica.caught_up),
        replica.lag_messages,
        rounded_size(replica.lag_bytes),
        replica.hold or "",
        replica.release,
        replica.reads_level or "",
        next((where for name, where in replica.endpoints if name.startswith("admin")), ""),
        replica.problem,
    )


def _show_brokers(view: ClusterBrokersView, *, as_json: bool) -> None:
    if as_json:
        print_json(view)
        return
    rows = [
        (each.broker, each.epoch, replica.name, *_cells(replica)) for each in view.brokers for replica in each.replicas
    ]
    print_table(("broker", "epoch", "replica", *COLUMNS), rows)
    for each in view.brokers:
        if each.preferred:
            typer.echo(
                f"broker {each.broker} is owned by {each.owner}, and could be by {each.preferred}, which comes first"
            )


@app.command("handover")
def handover(
    broker: Annotated[str, typer.Argument(help="A broker of the cluster. Default: the one that is asked.")] = "",
    to: Annotated[str, typer.Option("--to", metavar="REPLICA", help="Default: the first that is ready.")] = "",
    preferred: Annotated[
        bool, typer.Option("--preferred", help="Each broker of the cluster, to the first in its list that is ready.")
    ] = False,
    url: UrlOption = URL_DEFAULT,
) -> None:
    """Have a standby own the broker. Clients connect again, to the new owner. Any replica may be asked."""
    objects = AdminObjects(url)
    if not preferred:
        objects.hand_over(to, broker)
        typer.echo(f"{broker or 'the broker'} is handed over to {to or 'the first standby that is ready'}")
        return
    if to or broker:
        raise CommandFailed("--preferred is for all brokers: without a broker and --to", exit_code=USAGE)
    for each in objects.cluster_brokers().brokers:
        if each.preferred:
            objects.hand_over(each.preferred, each.broker)
            typer.echo(f"{each.broker} is handed over to {each.preferred}")


@app.command("add")
def add(
    replica: Annotated[str, typer.Argument(help="Its cluster.replica.")],
    before: Annotated[
        str, typer.Option("--before", metavar="REPLICA", help="It owns the broker rather than this one. Default: last.")
    ] = "",
    url: UrlOption = URL_DEFAULT,
) -> None:
    """Add a replica to those of the broker, or move one before another. Its process may be started before or later."""
    AdminObjects(url).add_replica(replica, before)
    typer.echo(f"{replica} is a replica of the broker")


@app.command("remove")
def remove(
    replica: Annotated[str, typer.Argument(help="Its name; it must not be the owner.")], url: UrlOption = URL_DEFAULT
) -> None:
    """Take a replica from those of the broker, for good: the log does not wait for it any more."""
    AdminObjects(url).remove_replica(replica)
    typer.echo(f"{replica} is no replica of the broker any more; its data folder may be deleted")


@app.command("demo")
def demo(
    data: Annotated[Path, typer.Option("--data", help="Folder for the data of all nodes. It may be deleted later.")],
) -> None:
    """Run three NATS servers and three replicas of a broker on this machine, to see one take over from another."""
    if importlib.util.find_spec("nats") is None:
        raise CommandFailed("the client for NATS is not installed", advice="pip install 'sluicegate[cluster]'")
    from sluicegate.gateway.cluster.demo import run_demo  # late: it needs the client

    try:
        run_demo(data, lambda text: typer.echo(text))
    except CannotStart as error:
        raise CommandFailed(error.text, advice=error.advice) from None
