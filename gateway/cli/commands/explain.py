"""`sluicegate explain ...`: where a message would go and why, and why the messages of a key wait."""

from typing import Annotated

import orjson
import typer
from rich.console import Console

from sluicegate.gateway.cli.admin.client import URL_DEFAULT, AdminClient, UrlOption, VpnOption
from sluicegate.gateway.cli.terminal.failures import USAGE, CommandFailed
from sluicegate.gateway.cli.terminal.output import JsonOption, print_json, print_table
from sluicegate.gateway.views.explanations import CheckView, DestinationView
from sluicegate.gateway.views.text import printable
from sluicegate.messaging.message.vpn import DEFAULT_VPN
from sluicegate.messaging.partitions.explain import WaitReason

app = typer.Typer(help="Explain where messages go, and why they wait.", no_args_is_help=True)


REASONS = {
    WaitReason.NOTHING_WAITS: "nothing of it waits",
    WaitReason.NO_CONSUMER: "no consumer is bound",
    WaitReason.HOLDDOWN: "the partition's consumer has gone; the rebalance delay runs",
    WaitReason.HANDOFF: "the partition changes hands: its old consumer settles what it holds",
    WaitReason.SOCKET_SHUT: "the consumer does not read what it is sent",
    WaitReason.WINDOW_FULL: "the consumer holds as many unsettled messages as it takes",
    WaitReason.UNACKED_MAX: "the consumer holds max_delivered_unacked_msgs_per_flow messages",
    WaitReason.NODE_UNACKED_MAX: "all consumers together hold limits.delivered_unacked_max messages",
    WaitReason.NOT_STORED: "the queue delivers what is stored, and its commit is under way",
    WaitReason.DELAYED: "the time before which it may not be delivered has not come",
    WaitReason.REDELIVERY_DELAY: "it failed, and is delivered again after a delay",
    WaitReason.BEHIND_A_FAILED_ONE: "an earlier message of its key failed and waits for its redelivery",
    WaitReason.RESCALE: "held by a rescale: older messages, in the partition its key had before, are not settled",
    WaitReason.LEAVING: "it is on its way to another queue",
    WaitReason.GROUP_BUSY: "the consumer that has its message group takes no more, or the group changes hands",
    WaitReason.ON_DISK: "it lies on disk until its turn comes",
    WaitReason.NOT_SELECTED: "no consumer that is there selects it",
    WaitReason.BEHIND_OTHERS: "it goes out when those before it have",
}


@app.command("publish")
def publish(
    topic: Annotated[str | None, typer.Argument(metavar="TOPIC", help="The topic; none with --queue.")] = None,
    queue: Annotated[str | None, typer.Option(help="A message that is sent to this queue.")] = None,
    key: Annotated[str | None, typer.Option("--key", "-k", help="Partition key.")] = None,
    client_id: Annotated[str | None, typer.Option("--client-id", "-i", help="Client id of the publisher.")] = None,
    username: Annotated[
        str | None,
        typer.Option("--username", "-u", help="The publisher's; else the connected client's."),
    ] = None,
    properties: Annotated[
        list[str] | None,
        typer.Option("--property", "-P", metavar="NAME=VALUE", help="User property: JSON, or a text; repeatable."),
    ] = None,
    size: Annotated[int, typer.Option(min=0, help="Payload in bytes.")] = 0,
    qos: Annotated[int, typer.Option(min=0, max=2, help="0: a direct message.")] = 1,
    priority: Annotated[int, typer.Option(min=0, max=9, help="Below 4 is low.")] = 4,
    deliver_to_one: Annotated[bool, typer.Option("--deliver-to-one", help="For one of its subscribers only.")] = False,
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
    as_json: JsonOption = False,
) -> None:
    """Show where a message would go, where not, which partition it gets, what each check says. Publishes nothing."""
    if (topic is None) == (queue is None):
        raise CommandFailed("name a TOPIC, or a queue with --queue", exit_code=USAGE)
    answer = AdminClient(url, vpn).explain_publish(
        topic=topic,
        queue=queue,
        key=key,
        client_id=client_id,
        client_username=username,
        properties=_properties(properties or []),
        size=size,
        qos=qos,
        priority=priority,
        deliver_to_one=deliver_to_one,
    )
    if as_json:
        print_json(answer)
        return
    because = f": {answer.reason}" if answer.reason else ""
    _say(f"{answer.verdict}{because}")
    if answer.publisher:
        _say(f"published as {answer.publisher}")
    if answer.retained_now:
        _say(f"{answer.topic} has a retained message")
    if answer.destinations:
        typer.echo("")
        print_table(
            ("to", "name", "filter", "verdict", "partition", "why"), [_row(each) for each in answer.destinations]
        )
    for destination in answer.destinations:
        if destination.checks:
            typer.echo("")
            _say(f"checks of {destination.queue}")
            columns = ("check", "usage", "adds", "limit", "unit", "verdict")
            print_table(columns, [_check_row(each) for each in destination.checks])


@app.command("key")
def key_command(
    queue: Annotated[str, typer.Argument(metavar="QUEUE", help="The queue's name.")],
    key: Annotated[str, typer.Argument(metavar="KEY", help="The partition key.")],
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
    as_json: JsonOption = False,
) -> None:
    """Show the partition of a key, who consumes it, and why its messages wait."""
    answer = AdminClient(url, vpn).explain_key(queue=queue, key=key)
    if as_json:
        print_json(answer)
        return
    rows = [
        ("partition", f"{answer.partition} (hash 0x{answer.key_hash:04x}), {answer.partition_status}"),
        ("consumer", f"{answer.client} (flow {answer.flow_id})" if answer.flow_id else "-"),
        ("waiting", answer.waiting_count),
        ("with a consumer", answer.in_flight_count),
        ("oldest waiting", answer.first_waiting or "-"),
        ("why", f"{answer.reason}: {REASONS[answer.reason]}"),
    ]
    if answer.unseen_count:
        rows.append(("not looked at", f"{answer.unseen_count} messages of the partition, on disk"))
    print_table(("", ""), rows)


def _properties(given: list[str]) -> str | None:
    """Return user properties as a JSON object; a value that is no JSON is a text."""
    properties: dict[str, object] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise CommandFailed(f"{text!r} is not NAME=VALUE", exit_code=USAGE)
        try:
            properties[name] = orjson.loads(value)
        except orjson.JSONDecodeError:
            properties[name] = value
    return orjson.dumps(properties).decode() if properties else None


def _row(view: DestinationView) -> tuple[object, ...]:
    partition = "-" if view.partition is None else view.partition
    why = view.reason or view.partition_reason
    return (view.kind, view.name, view.filter or "-", view.verdict, partition, why)


def _check_row(view: CheckView) -> tuple[object, ...]:
    limit = "-" if view.limit is None else str(view.limit)
    verdict = "ok" if not view.refused else "refused" if view.publisher_hears else "dropped here"
    return (view.check, view.usage, view.adds, limit, view.unit, verdict)


def _say(text: str) -> None:
    Console(soft_wrap=True, highlight=False).print(printable(text), markup=False)
