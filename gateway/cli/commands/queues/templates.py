"""`sluicegate template ...`: manage queue templates over the admin port."""

from typing import Annotated

import typer

from sluicegate.gateway.cli.admin.client import URL_DEFAULT, AdminClient, UrlOption, VpnOption
from sluicegate.gateway.cli.commands.queues.queues import attribute_value, value_text
from sluicegate.gateway.cli.terminal.failures import USAGE, CommandFailed
from sluicegate.gateway.cli.terminal.output import JsonOption, print_json, print_table
from sluicegate.messaging.message.vpn import DEFAULT_VPN
from sluicegate.messaging.queues.template import DURABILITY_OVERRIDES

app = typer.Typer(help="Queue templates: attributes for new queues, by name.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the template.")]
AttributesArgument = Annotated[
    list[str] | None, typer.Argument(metavar="ATTRIBUTE=VALUE", help="Attributes of the queues that it creates.")
]

FIELDS = ("queue_name_filter", "durability_override")


@app.command("create")
def create(
    name: NameArgument,
    queue_name_filter: Annotated[
        str,
        typer.Option("--for", metavar="FILTER", help="Queue names that it applies to, such as 'orders/>' or 'tmp*'."),
    ],
    attributes: AttributesArgument = None,
    durability_override: Annotated[
        str, typer.Option(help="none, or non-durable: queues are temporary unless their creator asks for durable ones.")
    ] = DURABILITY_OVERRIDES[0],
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
    as_json: JsonOption = False,
) -> None:
    """Create a queue template."""
    asked: dict[str, object] = {
        "name": name,
        "queue_name_filter": queue_name_filter,
        "durability_override": durability_override,
    }
    asked |= dict(attribute_value(text) for text in attributes or ())
    template = AdminClient(url, vpn).create_template(asked)
    _done(template, f"created template {name} for {queue_name_filter}", as_json)


@app.command("list")
def list_all(url: UrlOption = URL_DEFAULT, vpn: VpnOption = DEFAULT_VPN, as_json: JsonOption = False) -> None:
    """List all queue templates."""
    templates = AdminClient(url, vpn).list_templates()
    if as_json:
        print_json(templates)
        return
    rows = [(each["name"], *[each.get(field, "") for field in FIELDS], _attributes(each)) for each in templates]
    print_table(("name", "for", "durability override", "attributes"), rows)


@app.command("show")
def show(
    name: NameArgument, url: UrlOption = URL_DEFAULT, vpn: VpnOption = DEFAULT_VPN, as_json: JsonOption = False
) -> None:
    """Show one queue template."""
    template = AdminClient(url, vpn).show_template(name)
    if as_json:
        print_json(template)
    else:
        print_table(("field", "value"), [(field, value_text(value)) for field, value in template.items()])


@app.command("set")
def change(
    name: NameArgument,
    changes: Annotated[
        list[str],
        typer.Argument(metavar="FIELD=VALUE", help="New values. FIELD= removes an attribute from the template."),
    ],
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
    as_json: JsonOption = False,
) -> None:
    """Change a queue template. Existing queues stay as they are."""
    template = AdminClient(url, vpn).update_template(name, dict(_change(text) for text in changes))
    _done(template, f"changed template {name}", as_json)


@app.command("delete")
def delete(
    name: NameArgument, url: UrlOption = URL_DEFAULT, vpn: VpnOption = DEFAULT_VPN, as_json: JsonOption = False
) -> None:
    """Delete a queue template. Existing queues stay as they are."""
    AdminClient(url, vpn).delete_template(name)
    _done({"deleted": name}, f"deleted template {name}", as_json)


def _change(text: str) -> tuple[str, object]:
    field, equals, value = text.partition("=")
    if not equals:
        raise CommandFailed(f"{text!r} is not FIELD=VALUE", exit_code=USAGE)
    if field in FIELDS:
        return field, value
    return (field, None) if not value else attribute_value(text)


def _attributes(template: dict[str, object]) -> str:
    given = [(key, value) for key, value in template.items() if key != "name" and key not in FIELDS]
    return ", ".join(f"{key}={value_text(value)}" for key, value in given)


def _done(document: dict[str, object], text: str, as_json: bool) -> None:
    if as_json:
        print_json(document)
    else:
        typer.echo(text)
