"""`sluicegate queue move-messages|copy-messages|delete-messages|republish-messages|redrive`: act on messages."""

import time
from typing import Annotated, Final

import typer

from sluicegate.gateway.cli.admin.client import URL_DEFAULT, AdminClient, UrlOption, VpnOption
from sluicegate.gateway.cli.terminal.confirmation import confirm
from sluicegate.gateway.cli.terminal.failures import CommandFailed
from sluicegate.gateway.cli.terminal.output import JsonOption, print_json
from sluicegate.gateway.views.queues.messages import RedriveView, TakenView
from sluicegate.gateway.views.queues.selections import ALLOWED, LIMIT_DEFAULT, LIMIT_MAX, RATE_MAX
from sluicegate.gateway.views.text import counted
from sluicegate.messaging.message.vpn import DEFAULT_VPN

POLL_INTERVAL_S: Final = 0.2  # of the re-drive that the command waits for
RUNNING: Final = "running"
DONE: Final = "done"

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the queue.")]
ToArgument = Annotated[str, typer.Argument(metavar="TO", help="Name of the target queue.")]
IdsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="ID", help="Message IDs as `queue browse` prints them. Default: all messages that match."),
]
ChosenArgument = Annotated[
    list[str], typer.Argument(metavar="ID", help="Message IDs as `queue browse` and `queue search` print them.")
]
TopicOption = Annotated[str | None, typer.Option("--topic", help="Only messages whose topic matches this filter.")]
SelectorOption = Annotated[
    str | None, typer.Option("--selector", help="Only messages that match, such as color = 'red'.")
]
ReasonOption = Annotated[
    str | None, typer.Option("--dead-reason", help="Only messages that were dead-lettered for this reason.")
]
QueueOption = Annotated[
    str | None, typer.Option("--dead-queue", help="Only messages that were dead-lettered from this queue.")
]
AgeOption = Annotated[
    int | None,
    typer.Option("--older-than", metavar="SECONDS", min=0, help="Only messages that have been in the queue longer."),
]
LimitOption = Annotated[
    int | None,
    typer.Option("--limit", "-n", min=1, max=LIMIT_MAX, help=f"Maximum number of messages. Default: {LIMIT_DEFAULT}."),
]


def add_to(app: typer.Typer) -> None:
    """Add these commands to those for queues."""
    app.command("move-messages")(move_messages)
    app.command("copy-messages")(copy_messages)
    app.command("delete-messages")(delete_messages)
    app.command("republish-messages")(republish_messages)
    app.command("redrive-messages")(redrive_messages)
    app.command("redrive")(redrive)
    app.command("redrive-status")(redrive_status)
    app.command("redrive-cancel")(redrive_cancel)


def move_messages(
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
    """Move messages to another queue, each atomically. Messages that the other queue refuses stay."""
    selection = _selection(to, ids, topic, selector, dead_reason, dead_queue, older_than, limit)
    _show_taken(AdminClient(url, vpn).take_messages(name, "move", selection), f"moved to {to}", as_json)


def copy_messages(
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
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
    as_json: JsonOption = False,
) -> None:
    """Delete messages that are not delivered to a consumer."""
    if not ids and not yes:
        confirm(f"Delete the matching messages of {name}?")
    selection = _selection(None, ids, topic, selector, dead_reason, dead_queue, older_than, limit)
    _show_taken(AdminClient(url, vpn).take_messages(name, "delete", selection), "deleted", as_json)


def republish_messages(
    name: NameArgument,
    ids: ChosenArgument,
    remove: Annotated[bool, typer.Option("--remove", help="Delete each message when its copy is safe.")] = False,
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
    as_json: JsonOption = False,
) -> None:
    """Publish messages again, to the topics or queues they were published to. One that no queue would get stays."""
    view = AdminClient(url, vpn).republish_messages(name, ids, remove=remove)
    _show_taken(view, "published again", as_json)


def redrive_messages(
    name: NameArgument,
    ids: ChosenArgument,
    to: Annotated[
        str | None, typer.Option("--to", help="Target queue. Default: the queue that dead-lettered each message.")
    ] = None,
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
    as_json: JsonOption = False,
) -> None:
    """Move chosen dead-lettered messages back, as they were published, to the queues that dead-lettered them."""
    selection = _selection(to, ids, None, None, None, None, None, None)
    _show_taken(AdminClient(url, vpn).take_messages(name, "redrive", selection), "moved back", as_json)


def redrive(
    name: NameArgument,
    to: Annotated[
        str | None, typer.Option("--to", help="Target queue. Default: the queue that dead-lettered each message.")
    ] = None,
    rate: Annotated[
        int | None, typer.Option(min=1, max=RATE_MAX, help="Maximum number of messages per second.")
    ] = None,
    topic: TopicOption = None,
    selector: SelectorOption = None,
    dead_reason: ReasonOption = None,
    dead_queue: QueueOption = None,
    older_than: AgeOption = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, max=LIMIT_MAX, help="Maximum number of messages.")
    ] = None,
    wait: Annotated[bool, typer.Option(help="Wait until the re-drive ends. Ctrl-C does not cancel it.")] = True,
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
    as_json: JsonOption = False,
) -> None:
    """Move dead-lettered messages back, as they were published, to the queues that dead-lettered them."""
    client = AdminClient(url, vpn)
    selection = _selection(to, None, topic, selector, dead_reason, dead_queue, older_than, limit)
    view = client.start_redrive(name, selection if rate is None else {**selection, "rate": rate})
    while wait and view.state == RUNNING:
        time.sleep(POLL_INTERVAL_S)
        view = client.show_redrive(name)
    _show_redrive(view, as_json)
    if view.state not in (RUNNING, DONE):
        raise CommandFailed(f"the re-drive is {view.state}{': ' if view.failure else ''}{view.failure}")


def redrive_status(
    name: NameArgument, url: UrlOption = URL_DEFAULT, vpn: VpnOption = DEFAULT_VPN, as_json: JsonOption = False
) -> None:
    """Show the progress of the latest re-drive of a queue."""
    _show_redrive(AdminClient(url, vpn).show_redrive(name), as_json)


def redrive_cancel(
    name: NameArgument, url: UrlOption = URL_DEFAULT, vpn: VpnOption = DEFAULT_VPN, as_json: JsonOption = False
) -> None:
    """Cancel a re-drive. A new re-drive continues where it stopped."""
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
    typer.echo(f"{counted(view.done_count, 'message')} {what}")
    _show_kept(view.kept)
    if view.not_found:
        typer.echo(f"not found: {', '.join(view.not_found)}")


def _show_redrive(view: RedriveView, as_json: bool) -> None:
    if as_json:
        print_json(view)
        return
    where = "to the original queues" if view.to is None else f"to {view.to}"
    typer.echo(f"{view.state}: {counted(view.done_count, 'message')} moved back {where}, position {view.position}")
    _show_kept(view.kept)


def _show_kept(kept: dict[str, int]) -> None:
    for reason, count in sorted(kept.items()):
        typer.echo(f"{counted(count, 'message')} not changed: {reason}")


def replay(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the queue.")],
    start: Annotated[str, typer.Option("--from", metavar="START", help=f"Where to start: {ALLOWED}.")],
    end: Annotated[int | None, typer.Option("--to", min=1, help="Stop before this sequence.")] = None,
    partition: Annotated[int | None, typer.Option(min=0, help="Only this partition.")] = None,
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
    as_json: JsonOption = False,
) -> None:
    """Deliver settled messages that the queue keeps again, oldest first and flagged as redelivered."""
    members = {"from": start, "to": end, "partition": partition}
    count = AdminClient(url, vpn).replay_queue(
        name, {key: value for key, value in members.items() if value is not None}
    )
    if as_json:
        print_json({"replayed_count": count})
    else:
        typer.echo(f"{counted(count, 'message')} of {name} will be delivered again")
