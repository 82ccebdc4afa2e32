"""`sluicegate queue move|copy|delete-messages|redrive`: single messages of a queue, over the admin port."""

import time
from typing import Annotated, Final

import typer

from sluicegate.gateway.cli.admin.client import URL_DEFAULT, AdminClient, UrlOption, VpnOption
from sluicegate.gateway.cli.terminal.failures import CommandFailed
from sluicegate.gateway.cli.terminal.output import JsonOption, print_json
from sluicegate.gateway.views.queues import RedriveView, TakenView
from sluicegate.gateway.views.selections import ALLOWED, LIMIT_DEFAULT, LIMIT_MAX, RATE_MAX
from sluicegate.messaging.message.vpn import DEFAULT_VPN

LOOK_EVERY_S: Final = 0.2  # how often a re-drive that is waited for is looked at
RUNNING: Final = "running"
DONE: Final = "done"

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The queue's name.")]
ToArgument = Annotated[str, typer.Argument(metavar="TO", help="The queue to bring them to.")]
IdsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[ID]...", help="Ids as `queue browse` shows them; without, all that match."),
]
TopicOption = Annotated[str | None, typer.Option("--topic", help="Topic filter.")]
SelectorOption = Annotated[str | None, typer.Option("--selector", help="What they say of themselves: color = 'red'.")]
ReasonOption = Annotated[str | None, typer.Option("--dead-reason", help="Why they died.")]
QueueOption = Annotated[str | None, typer.Option("--dead-queue", help="Queue they died in.")]
AgeOption = Annotated[int | None, typer.Option("--older-than", metavar="SECONDS", min=0, help="Time in the queue.")]
LimitOption = Annotated[
    int | None,
    typer.Option("--limit", "-n", min=1, max=LIMIT_MAX, help=f"Most messages; {LIMIT_DEFAULT} unless given."),
]


def add_to(app: typer.Typer) -> None:
    """Add these commands to those for queues."""
    app.command("move")(move)
    app.command("copy")(copy)
    app.command("delete-messages")(delete_messages)
    app.command("redrive")(redrive)
    app.command("redrive-status")(redrive_status)
    app.command("redrive-cancel")(redrive_cancel)


def move(
    name: NameArgument,
    to: ToArgument,
    ids: IdsArgument = None,
    topic: TopicOption = None,
    selector: SelectorOption = None,
    dead_reason: ReasonOption = None,
    dead_queue: QueueOption = None,
    older_than: AgeOption = None,
    limit: LimitOption = None,
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
    as_json: JsonOption = False,
) -> None:
    """Move messages to another queue, each in one step; what that does not take stays."""
    selection = _selection(to, ids, topic, selector, dead_reason, dead_queue, older_than, limit)
    _show_taken(AdminClient(url, vpn).take_messages(name, "move", selection), f"moved to {to}", as_json)


def copy(
    name: NameArgument,
    to: ToArgument,
    ids: IdsArgument = None,
    topic: TopicOption = None,
    selector: SelectorOption = None,
    dead_reason: ReasonOption = None,
    dead_queue: QueueOption = None,
    older_than: AgeOption = None,
    limit: LimitOption = None,
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
    as_json: JsonOption = False,
) -> None:
    """Copy messages to another queue, as if they were published to it."""
    selection = _selection(to, ids, topic, selector, dead_reason, dead_queue, older_than, limit)
    _show_taken(AdminClient(url, vpn).take_messages(name, "copy", selection), f"copied to {to}", as_json)


def delete_messages(
    name: NameArgument,
    ids: IdsArgument = None,
    topic: TopicOption = None,
    selector: SelectorOption = None,
    dead_reason: ReasonOption = None,
    dead_queue: QueueOption = None,
    older_than: AgeOption = None,
    limit: LimitOption = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
    as_json: JsonOption = False,
) -> None:
    """Delete messages that no consumer holds."""
    if not ids and not yes and not typer.confirm(f"Delete messages of {name} that match?", err=True):
        raise CommandFailed("nothing was changed", advice="--yes does it without the question.")
    selection = _selection(None, ids, topic, selector, dead_reason, dead_queue, older_than, limit)
    _show_taken(AdminClient(url, vpn).take_messages(name, "delete", selection), "deleted", as_json)


def redrive(
    name: NameArgument,
    to: Annotated[str | None, typer.Option("--to", help="One queue for all; without, where each died.")] = None,
    rate: Annotated[int | None, typer.Option(min=1, max=RATE_MAX, help="Messages per second.")] = None,
    topic: TopicOption = None,
    selector: SelectorOption = None,
    dead_reason: ReasonOption = None,
    dead_queue: QueueOption = None,
    older_than: AgeOption = None,
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=1, max=LIMIT_MAX, help="Most messages.")] = None,
    wait: Annotated[bool, typer.Option(help="Wait for the end; Ctrl-C leaves it running.")] = True,
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
    as_json: JsonOption = False,
) -> None:
    """Drive dead messages back to where they died, as they were published."""
    client = AdminClient(url, vpn)
    selection = _selection(to, None, topic, selector, dead_reason, dead_queue, older_than, limit)
    view = client.start_redrive(name, selection if rate is None else {**selection, "rate": rate})
    while wait and view.state == RUNNING:
        time.sleep(LOOK_EVERY_S)
        view = client.show_redrive(name)
    _show_redrive(view, as_json)
    if view.state not in (RUNNING, DONE):
        raise CommandFailed(f"the re-drive is {view.state}{': ' if view.failure else ''}{view.failure}")


def redrive_status(
    name: NameArgument, url: UrlOption = URL_DEFAULT, vpn: VpnOption = DEFAULT_VPN, as_json: JsonOption = False
) -> None:
    """Show how far the latest re-drive of a queue has come."""
    _show_redrive(AdminClient(url, vpn).show_redrive(name), as_json)


def redrive_cancel(
    name: NameArgument, url: UrlOption = URL_DEFAULT, vpn: VpnOption = DEFAULT_VPN, as_json: JsonOption = False
) -> None:
    """End a re-drive where it is; another one goes on from there."""
    _show_redrive(AdminClient(url, vpn).cancel_redrive(name), as_json)


def _selection(
    to: str | None,
    ids: list[str] | None,
    topic: str | None,
    selector: str | None,
    dead_reason: str | None,
    dead_queue: str | None,
    older_than_s: int | None,
    limit: int | None,
) -> dict[str, object]:
    given: dict[str, object | None] = {
        "to": to,
        "ids": ids or None,
        "topic": topic,
        "selector": selector,
        "dead_reason": dead_reason,
        "dead_queue": dead_queue,
        "older_than_s": older_than_s,
        "limit": limit,
    }
    return {name: value for name, value in given.items() if value is not None}


def _show_taken(view: TakenView, what: str, as_json: bool) -> None:
    if as_json:
        print_json(view)
        return
    typer.echo(f"{view.done_count} messages {what}")
    _show_kept(view.kept)
    if view.not_found:
        typer.echo(f"not found: {', '.join(view.not_found)}")


def _show_redrive(view: RedriveView, as_json: bool) -> None:
    if as_json:
        print_json(view)
        return
    where = "to where they died" if view.to is None else f"to {view.to}"
    typer.echo(f"{view.state}: {view.done_count} messages driven back {where}, at {view.position}")
    _show_kept(view.kept)


def _show_kept(kept: dict[str, int]) -> None:
    for reason, count in sorted(kept.items()):
        typer.echo(f"left as they are: {count} ({reason})")


# `sluicegate queue replay`: offer settled messages that a queue still keeps to its consumers again.


def replay(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The queue's name.")],
    start: Annotated[str, typer.Option("--from", metavar="START", help=f"Where to begin: {ALLOWED}.")],
    end: Annotated[int | None, typer.Option("--to", min=1, help="End before this sequence.")] = None,
    partition: Annotated[int | None, typer.Option(min=0, help="This one only.")] = None,
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
    as_json: JsonOption = False,
) -> None:
    """Offer settled messages that the queue still keeps to its consumers again, oldest first and flagged."""
    members = {"from": start, "to": end, "partition": partition}
    count = AdminClient(url, vpn).replay_queue(
        name, {key: value for key, value in members.items() if value is not None}
    )
    if as_json:
        print_json({"replayed_count": count})
    else:
        typer.echo(f"{count} messages of {name} are offered again")
