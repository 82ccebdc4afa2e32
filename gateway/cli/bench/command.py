"""`sluicegate bench`: put load on a running gateway through a temporary queue, and check every message."""

import asyncio
import secrets
from dataclasses import asdict, dataclass
from typing import Annotated, Final

import typer

from sluicegate.gateway.cli.admin.client import URL_DEFAULT, AdminClient, UrlOption, VpnOption
from sluicegate.gateway.cli.bench.figures import PAYLOAD_BYTES_MIN
from sluicegate.gateway.cli.bench.load import Load, Run
from sluicegate.gateway.cli.commands.mqtt.session import PasswordOption, UserOption
from sluicegate.gateway.cli.terminal.contexts import login_stays
from sluicegate.gateway.cli.terminal.failures import FAILED, UNREACHABLE, CommandFailed
from sluicegate.gateway.cli.terminal.output import JsonOption, print_json, print_table
from sluicegate.gateway.views.text import counted
from sluicegate.messaging.message.vpn import DEFAULT_VPN
from sluicegate.protocols.flow.client.errors import ConnectFailed, FlowClientError
from sluicegate.protocols.flow.client.options import PORT_DEFAULT, ClientOptions, target_of

PERCENTS: Final = (50.0, 90.0, 99.0, 99.9)
QUEUE_PREFIX: Final = "sluicegate-bench-"
SIZE_MAX: Final = 16 << 20
WAIT_S: Final = 10.0  # without a new message
GIVE_UP_S: Final = 5.0  # without a connection: a stopped gateway cannot be measured
EXPIRES_S: Final = 60  # without a consumer, for a queue that this command could not delete

RateOption = Annotated[
    int, typer.Option("--rate", "-r", min=0, help="Messages per second in total; 0: as fast as possible.")
]
DurationOption = Annotated[float, typer.Option("--duration", "-d", min=0.1, max=86_400, help="Duration in seconds.")]
SizeOption = Annotated[
    int, typer.Option("--size", "-s", min=PAYLOAD_BYTES_MIN, max=SIZE_MAX, help="Payload size in bytes.")
]
PartitionsOption = Annotated[
    int,
    typer.Option("--partitions", min=0, max=1000, help="Partitions of the queue; 0: one consumer at a time gets all."),
]


@dataclass(frozen=True, slots=True)
class Figures:
    """The result of a run."""

    sent_per_s: float  # confirmed messages, divided by the time until the last confirmation
    received_per_s: float
    confirmed: int
    refused: int
    received: int
    lost: int  # confirmed but not received
    duplicates: int
    out_of_order: int  # received after a later message of the same key
    latency_ms: dict[str, float]  # from the time when a message was due until a consumer received it


def bench(
    rate: RateOption = 1000,
    duration_s: DurationOption = 10.0,
    size: SizeOption = 100,
    keys: Annotated[int, typer.Option("--keys", "-k", min=1, max=1_000_000, help="Number of partition keys.")] = 100,
    partitions: PartitionsOption = 8,
    publishers: Annotated[
        int, typer.Option("--publishers", min=1, max=1000, help="Number of publishing connections.")
    ] = 1,
    consumers: Annotated[
        int, typer.Option("--consumers", min=1, max=1000, help="Number of consuming connections.")
    ] = 1,
    flow_url: Annotated[
        str,
        typer.Option(
            "--flow-url",
            help="Address for the flow protocol: flow://HOST[:PORT], or flows:// for TLS.",
            callback=login_stays("flow_url"),
        ),
    ] = f"flow://localhost:{PORT_DEFAULT}",
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
    username: UserOption = None,
    password: PasswordOption = None,
    as_json: JsonOption = False,
) -> None:
    """Publish and consume at a fixed rate, and check what arrives.

    Each message has to come once, each key in order. The command creates a queue, and deletes it at the end.
    """
    load = Load(
        rate=rate,
        duration_s=duration_s,
        size_bytes=size,
        keys_count=keys,
        publishers_count=publishers,
        consumers_count=consumers,
        wait_s=WAIT_S,
    )
    options = _options(flow_url, username or "", password or "", "" if vpn == DEFAULT_VPN else vpn)
    run_id = secrets.randbits(63)
    queue = f"{QUEUE_PREFIX}{run_id:016x}"
    admin = AdminClient(url, vpn)
    access = {"access_type": "non-exclusive", "partition_count": partitions} if partitions else {}
    admin.create_queue({"name": queue, "owner": username or "", "expires_unbound_s": EXPIRES_S, **access})
    bench_run = Run(load, url=flow_url, options=options, queue=queue, run=run_id, on_lost=_report_lost_connection)
    try:
        _execute(bench_run)
    finally:
        _delete(admin, queue)
    figures = _figures(bench_run)
    if as_json:
        print_json(asdict(figures))
    else:
        _print(figures)
    if figures.lost or figures.out_of_order or figures.refused:
        refusal = f": {bench_run.refusal}" if bench_run.refusal else ""
        lost = counted(figures.lost, "message")
        text = f"{lost} lost, {figures.out_of_order} out of order, {figures.refused} refused{refusal}"
        raise CommandFailed(text, exit_code=FAILED)


def _options(flow_url: str, username: str, password: str, vpn: str) -> ClientOptions:
    try:
        target_of(flow_url)
        return ClientOptions(username=username, password=password, vpn=vpn, give_up_after_s=GIVE_UP_S)
    except ValueError as wrong:
        raise typer.BadParameter(str(wrong)) from None


def _execute(run: Run) -> None:
    try:
        asyncio.run(run.execute())
    except ConnectFailed as failed:
        advice = "Is it running (`sluicegate serve`)? Give another address with --flow-url."
        raise CommandFailed(str(failed), exit_code=UNREACHABLE, advice=advice) from None
    except FlowClientError as failed:
        raise CommandFailed(str(failed), exit_code=FAILED) from None


def _report_lost_connection(reason: str) -> None:
    typer.echo(f"connection lost: {reason}; waiting {GIVE_UP_S:g} s for the gateway", err=True)


def _delete(admin: AdminClient, queue: str) -> None:
    """Delete the queue. A failure is only printed, so that it does not hide the failure of the run."""
    try:
        admin.delete_queue(queue)
    except CommandFailed as failed:
        typer.echo(f"{queue} was not deleted; it expires after {EXPIRES_S} s without a consumer: {failed}", err=True)


def _figures(run: Run) -> Figures:
    tally, latencies = run.tally, run.latencies
    shown = {f"p{percent:g}": round(latencies.percentile_ms(percent), 3) for percent in PERCENTS}
    return Figures(
        sent_per_s=round(run.confirmed_count / max(run.published_s, 1e-9), 1),
        received_per_s=round(tally.received_count / max(run.consumed_s, 1e-9), 1),
        confirmed=run.confirmed_count,
        refused=run.refused_count,
        received=tally.received_count,
        lost=max(0, run.confirmed_count - tally.received_count),
        duplicates=tally.duplicate_count,
        out_of_order=tally.out_of_order_count,
        latency_ms={**shown, "max": round(latencies.max_ns / 1e6, 3)},
    )


def _print(figures: Figures) -> None:
    print_table(
        ("", "messages", "per second"),
        (
            ("confirmed", figures.confirmed, figures.sent_per_s),
            ("received", figures.received, figures.received_per_s),
        ),
    )
    typer.echo(f"lost {figures.lost}, duplicates {figures.duplicates}, out of order {figures.out_of_order}")
    typer.echo("latency " + "  ".join(f"{name} {value:g} ms" for name, value in figures.latency_ms.items()))
