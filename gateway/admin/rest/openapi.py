"""The OpenAPI document and the documentation page, both made from the table of operations."""

import html
from functools import cache
from typing import Final

import orjson
from pydantic import TypeAdapter

from sluicegate.gateway.admin.operation import VPN_PARAMETER, Answer, Operation, Parameter, TextParameter
from sluicegate.gateway.admin.rest.operations import OPERATIONS
from sluicegate.gateway.build import VERSION
from sluicegate.gateway.config.sections.rest_delivery_points import RestDeliveryPoint
from sluicegate.gateway.config.sections.section import NamedSection
from sluicegate.gateway.config.sections.security.client_profiles import AclProfileSettings, ClientProfileSettings
from sluicegate.gateway.observability.reader_batches import ReaderBatch
from sluicegate.gateway.provisioning.stored_users import PASSWORD_CHARS_MAX, AskedUser
from sluicegate.gateway.views.accounts import AccountView, ProfilesView, UsersView
from sluicegate.gateway.views.clients import ClientsView, MessageVpnsView
from sluicegate.gateway.views.explanations import KeyExplanation, PublishExplanation
from sluicegate.gateway.views.figures import NodeFigures, QueuesFigures
from sluicegate.gateway.views.queues import (
    QUEUE_CONFIG_SCHEMA,
    ActorView,
    DurableSelectorView,
    EventView,
    Health,
    MessageView,
    QueueView,
    RedriveView,
    ReloadView,
    TakenView,
    attribute_schema,
)
from sluicegate.gateway.views.rest import RestDeliveryPointsView
from sluicegate.gateway.views.selections import (
    ALLOWED,
    FIELDS_OF_DELETE,
    FIELDS_OF_MOVE,
    FIELDS_OF_REDRIVE,
    SELECTION_SCHEMA,
)
from sluicegate.gateway.views.spool import BackupView, CursorView, SpoolView
from sluicegate.gateway.views.subscriptions import SmrpSubscriptionsView
from sluicegate.messaging.queues.attributes import ATTRIBUTES
from sluicegate.messaging.queues.template import DURABILITY_OVERRIDES, NOT_IN_TEMPLATES
from sluicegate.storage.backup.folder import NAME_ALLOWED, NAME_FORM

Schema = dict[str, object]

# What answers hold; each is described by its own type.
VIEWS: Final = (
    QueueView,
    CursorView,
    ClientsView,
    NodeFigures,
    QueuesFigures,
    SpoolView,
    BackupView,
    MessageView,
    ActorView,
    EventView,
    Health,
    TakenView,
    RedriveView,
    PublishExplanation,
    KeyExplanation,
    RestDeliveryPointsView,
    SmrpSubscriptionsView,
    DurableSelectorView,
    ReloadView,
    ReaderBatch,
    MessageVpnsView,
    UsersView,
    ProfilesView,
    AccountView,
)

# What bodies describe as a configuration does.
BODIES: Final[dict[str, type[NamedSection]]] = {
    "RestDeliveryPoint": RestDeliveryPoint,
    "ClientProfile": ClientProfileSettings,
    "AclProfile": AclProfileSettings,
}

_TEXTS: Final[Schema] = {"type": "array", "items": {"type": "string"}}
_SELECTORS: Final[Schema] = {
    "type": "object",
    "properties": {"selectors": {**_TEXTS, "description": "an empty text: everything"}},
    "required": ["selectors"],
    "additionalProperties": False,
}
_TEMPLATE: Final[Schema] = {
    "queue_name_filter": {"type": "string", "description": "names of queues; * ends a level or is one, > is the rest"},
    "durability_override": {"type": "string", "enum": list(DURABILITY_OVERRIDES)},
}
_PROBLEM: Final[Schema] = {
    "type": "object",
    "description": "RFC 9457 problem details",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "field": {"type": "string", "description": "the attribute that is wrong"},
        "allowed": {"type": "string", "description": "what it may be"},
    },
    "required": ["type", "title", "status", "detail"],
}
_REPLAY: Final[Schema] = {
    "type": "object",
    "properties": {
        "from": {"type": "string", "description": ALLOWED},
        "to": {"type": "integer", "description": "sequence to end before; absent: everything"},
        "partition": {"type": "integer", "description": "this one only"},
    },
    "required": ["from"],
    "additionalProperties": False,
}
_PASSWORD: Final[Schema] = {
    "type": "string",
    "format": "password",
    "writeOnly": True,
    "minLength": 1,
    "maxLength": PASSWORD_CHARS_MAX,
    "description": "in plain; only what proves it is kept",
}
_BACKUP: Final[Schema] = {
    "type": "object",
    "properties": {"name": {"type": "string", "description": NAME_ALLOWED, "pattern": f"^{NAME_FORM.pattern}$"}},
    "additionalProperties": False,
}

_SIGNING_IN: Final[Schema] = {
    "basic": {"type": "http", "scheme": "basic"},
    "bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
}


def document() -> Schema:
    """Return the OpenAPI 3.1 document."""
    paths: dict[str, Schema] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Sluicegate admin API", "version": VERSION},
        "paths": paths,
        "components": {"schemas": _schemas(), "securitySchemes": _SIGNING_IN},
        "security": [{name: []} for name in _SIGNING_IN] + [{}],  # nothing of it, where there are no accounts
    }


@cache
def document_json() -> bytes:
    """Return the document as it is sent. Made once, for it takes long: not for the event loop."""
    return orjson.dumps(document())


def docs_page() -> str:
    """Return a page that needs nothing from elsewhere: no script, no style sheet, no font."""
    rows = "".join(
        f"<h2><code>{operation.method} {html.escape(operation.path)}</code></h2>"
        f"<p>{html.escape(operation.summary)}.</p>"
        f"{_parameter_list(operation)}<ul>{''.join(_answer_item(answer) for answer in operation.answers)}</ul>"
        for operation in OPERATIONS
    )
    attributes = "".join(
        f"<tr><td><code>{attribute.name}</code><td>{html.escape(str(attribute.default))}"
        f"<td>{html.escape(attribute.allowed())}<td>{html.escape(attribute.meaning)}"
        for attribute in ATTRIBUTES
    )
    return _page(
        "Admin API",
        "<p>A queue name that contains <code>/</code> is percent-encoded in a path: <code>/queues/orders%2Feu</code>. "
        'Errors are RFC 9457 problem details. <a href="/openapi.json">OpenAPI document</a>.</p>'
        f"{rows}<h2>Queue attributes</h2><table><tr><th>name<th>default<th>allowed<th>meaning{attributes}</table>",
    )


def index_page() -> str:
    """Return the page at `/`."""
    links = "".join(
        f'<li><a href="{operation.path}">{operation.path}</a> {html.escape(operation.summary)}</li>'
        for operation in OPERATIONS
        if operation.method == "GET" and operation.path != "/" and _needs_nothing(operation)
    )
    return _page("Sluicegate", f'<p><a href="console/">The console</a></p><ul>{links}</ul>')


def _needs_nothing(operation: Operation) -> bool:
    texts = [each for each in operation.parameters if isinstance(each, TextParameter) and each is not VPN_PARAMETER]
    return "{" not in operation.path and not texts


def _operation(operation: Operation) -> Schema:
    described: Schema = {
        "operationId": operation.id,
        "summary": operation.summary,
        "responses": {str(answer.status): _response(answer) for answer in operation.answers},
    }
    parameters = [_parameter(each) for each in operation.parameters]
    named = [part[1:-1] for part in operation.path.split("/") if part.startswith("{")]
    in_path: list[Schema] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in named
    ]
    parameters = in_path + parameters
    if parameters:
        described["parameters"] = parameters
    if operation.body is not None:
        content = {"application/json": {"schema": _reference(operation.body)}}
        described["requestBody"] = {"required": True, "content": content}
    return described


def _response(answer: Answer) -> Schema:
    response: Schema = {"description": answer.meaning}
    if answer.schema is not None:
        media_type = "application/problem+json" if answer.schema == "Problem" else answer.media_type
        response["content"] = {media_type: {"schema": _reference(answer.schema)}}
    elif answer.status != 204:
        response["content"] = {answer.media_type: {"schema": {"type": "string"}}}
    return response


def _parameter(parameter: Parameter | TextParameter) -> Schema:
    if isinstance(parameter, TextParameter):
        text: Schema = {"type": "string", "maxLength": parameter.chars_max}
        return {
            "name": parameter.name,
            "in": "query",
            "description": parameter.meaning,
            "required": parameter.required,
            "schema": text,
        }
    schema: Schema = {"type": "integer", "minimum": parameter.low, "maximum": parameter.high}
    if parameter.default is not None:
        schema["default"] = parameter.default
    return {"name": parameter.name, "in": "query", "description": parameter.meaning, "schema": schema}


def _reference(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _schemas() -> Schema:
    attributes: Schema = {attribute.name: attribute_schema(attribute) for attribute in ATTRIBUTES}
    in_templates: Schema = {name: schema for name, schema in attributes.items() if name not in NOT_IN_TEMPLATES}
    schemas: Schema = {
        "Document": {"type": "object"},
        "Problem": _PROBLEM,
        "QueueConfig": QUEUE_CONFIG_SCHEMA,
        "QueueDefinition": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "may be left out of a temporary queue"},
                "durable": {"type": "boolean", "description": "false: temporary, kept in memory only"},
                **attributes,
                "subscriptions": _TEXTS,
            },
            "additionalProperties": False,
        },
        "QueueChanges": {
            "type": "object",
            "properties": {**attributes, "subscriptions": _TEXTS},
            "additionalProperties": False,
        },
        "QueueTemplate": {
            "type": "object",
            "properties": {"name": {"type": "string"}, **_TEMPLATE, **in_templates},
            "required": ["name", "queue_name_filter"],
            "additionalProperties": False,
        },
        "QueueTemplateChanges": {
            "type": "object",
            "properties": {**_TEMPLATE, **in_templates},
            "additionalProperties": False,
        },
        "QueueTemplates": _list_of("templates", "QueueTemplate"),
        "Purged": {"type": "object", "properties": {"purged_count": {"type": "integer"}}, "required": ["purged_count"]},
        "Queues": _list_of("queues", "QueueView"),
        "Messages": _list_of("messages", "MessageView"),
        "StartBackup": _BACKUP,
        "Replay": _REPLAY,
        "Replayed": {
            "type": "object",
            "properties": {"replayed_count": {"type": "integer"}},
            "required": ["replayed_count"],
        },
        "Cursors": _list_of("cursors", "CursorView"),
        "DurableSelectors": _list_of("selectors", "DurableSelectorView"),
        "SetSelectors": _SELECTORS,
        "Actors": _list_of("actors", "ActorView"),
        "Events": _list_of("events", "EventView"),
        "DeleteMessages": _fields(FIELDS_OF_DELETE),
        "MoveMessages": {**_fields(FIELDS_OF_MOVE), "required": ["to"]},
        "RedriveMessages": _fields(FIELDS_OF_REDRIVE),
    }
    for view in VIEWS:
        schema = TypeAdapter(view).json_schema(ref_template="#/components/schemas/{model}", mode="serialization")
        schemas.update(schema.pop("$defs", {}))
        if "$ref" not in schema:  # a view that holds itself is among its own definitions
            schemas[view.__name__] = schema
    return schemas | _bodies() | _users()


def _users() -> Schema:
    """Return the schemas of bodies that describe a user."""
    user = TypeAdapter(AskedUser).json_schema()
    fields: Schema = user["properties"]
    fields["password"] = _PASSWORD
    changes = {key: value for key, value in user.items() if key != "required"}
    return {"User": {**user, "required": ["name", "password"]}, "UserChanges": changes}


def _bodies() -> Schema:
    """Return the schemas of bodies that describe an object, and a change of one."""
    schemas: Schema = {}
    for name, model in BODIES.items():
        whole = TypeAdapter(model).json_schema(ref_template="#/components/schemas/{model}")
        schemas.update(whole.pop("$defs", {}))
        schemas[name] = whole
        schemas[f"{name}Changes"] = {key: value for key, value in whole.items() if key != "required"}
    return schemas


def _fields(names: tuple[str, ...]) -> Schema:
    """Return the schema of a body that selects messages."""
    properties = {name: SELECTION_SCHEMA[name] for name in names}
    if "rate" in names:
        properties["limit"] = {**SELECTION_SCHEMA["limit"], "minimum": 0, "default": 0}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _list_of(key: str, view: str) -> Schema:
    return {"type": "object", "properties": {key: {"type": "array", "items": _reference(view)}}, "required": [key]}


def _parameter_list(operation: Operation) -> str:
    items = "".join(
        f"<li><code>?{each.name}=</code> {html.escape(each.meaning)}, {_range_words(each)}</li>"
        for each in operation.parameters
    )
    return f"<ul>{items}</ul>" if items else ""


def _range_words(parameter: Parameter | TextParameter) -> str:
    if isinstance(parameter, TextParameter):
        return f"1 to {parameter.chars_max} characters{'' if parameter.required else ', optional'}"
    return f"{parameter.low} to {parameter.high}"


def _answer_item(answer: Answer) -> str:
    return f"<li>{answer.status}: {html.escape(answer.meaning)}</li>"


def _page(title: str, body: str) -> str:
    style = (
        "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
        "td,th{text-align:left;padding:.2rem .6rem;vertical-align:top}h2{margin-top:2rem;font-size:1.1rem}"
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{style}</style>'
        f"<h1>{title}</h1>{body}</html>"
    )
