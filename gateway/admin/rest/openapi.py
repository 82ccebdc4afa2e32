"""The OpenAPI document and the documentation page, built from the declarations of operations."""

import html
from collections.abc import Sequence
from functools import cache
from typing import Final

import orjson

from sluicegate.gateway.admin.operation import (
    PROBLEM,
    VPN_PARAMETER,
    Answer,
    Described,
    JsonSchema,
    Operation,
    Parameter,
    TextParameter,
)
from sluicegate.gateway.admin.rest.schemas import definitions_of, name_of, reference
from sluicegate.gateway.build import VERSION
from sluicegate.messaging.queues.attributes import ATTRIBUTES

_SIGNING_IN: Final[JsonSchema] = {
    "basic": {"type": "http", "scheme": "basic"},
    "bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
}


def document(operations: Sequence[Operation]) -> JsonSchema:
    """Return the OpenAPI 3.1 document."""
    paths: dict[str, JsonSchema] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Sluicegate admin API", "version": VERSION},
        "paths": paths,
        "components": {"schemas": _schemas(operations), "securitySchemes": _SIGNING_IN},
        "security": [{name: []} for name in _SIGNING_IN] + [{}],  # {}: no login, where there are no accounts
    }


@cache
def document_json(operations: tuple[Operation, ...]) -> bytes:
    """Return the encoded document. It is built once, off the event loop, because that is slow."""
    return orjson.dumps(document(operations))


def docs_page(operations: Sequence[Operation]) -> str:
    """Return the documentation page, which loads nothing: no script, style sheet or font."""
    rows = "".join(
        f"<h2><code>{operation.method} {html.escape(operation.path)}</code></h2>"
        f"<p>{html.escape(operation.summary)}.</p>"
        f"{_parameter_list(operation)}<ul>{''.join(_answer_item(answer) for answer in operation.answers)}</ul>"
        for operation in operations
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
        f"<p>What can be read without a parameter:</p>{_links(operations)}{rows}"
        f"<h2>Queue attributes</h2><table><tr><th>name<th>default<th>allowed<th>meaning{attributes}</table>",
    )


def _links(operations: Sequence[Operation]) -> str:
    links = "".join(
        f'<li><a href="{operation.path}">{operation.path}</a> {html.escape(operation.summary)}</li>'
        for operation in operations
        if operation.method == "GET" and operation.path not in ("/", "/docs") and _needs_nothing(operation)
    )
    return f"<ul>{links}</ul>"


def _needs_nothing(operation: Operation) -> bool:
    texts = [each for each in operation.parameters if isinstance(each, TextParameter) and each is not VPN_PARAMETER]
    return "{" not in operation.path and not texts


def _operation(operation: Operation) -> JsonSchema:
    described: JsonSchema = {
        "operationId": operation.id,
        "summary": operation.summary,
        "responses": {str(answer.status): _response(answer) for answer in operation.answers},
    }
    parameters = [_parameter(each) for each in operation.parameters]
    named = [part[1:-1] for part in operation.path.split("/") if part.startswith("{")]
    in_path: list[JsonSchema] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in named
    ]
    parameters = in_path + parameters
    if parameters:
        described["parameters"] = parameters
    if operation.body is not None:
        schema = reference(name_of(operation.body))
        content = {media_type: {"schema": schema} for media_type in operation.body_media_types}
        described["requestBody"] = {"required": True, "content": content}
    return described


def _response(answer: Answer) -> JsonSchema:
    response: JsonSchema = {"description": answer.meaning}
    if answer.schema is not None:
        media_type = "application/problem+json" if answer.schema is PROBLEM else answer.media_type
        schema = reference(name_of(answer.schema))
        response["content"] = {each: {"schema": schema} for each in (media_type, *answer.other_media_types)}
    elif answer.status != 204:
        response["content"] = {answer.media_type: {"schema": {"type": "string"}}}
    return response


def _parameter(parameter: Parameter | TextParameter) -> JsonSchema:
    if isinstance(parameter, TextParameter):
        text: JsonSchema = {"type": "string", "maxLength": parameter.chars_max}
        return {
            "name": parameter.name,
            "in": "query",
            "description": parameter.meaning,
            "required": parameter.required,
            "schema": text,
        }
    schema: JsonSchema = {"type": "integer", "minimum": parameter.low, "maximum": parameter.high}
    if parameter.default is not None:
        schema["default"] = parameter.default
    return {"name": parameter.name, "in": "query", "description": parameter.meaning, "schema": schema}


def _schemas(operations: Sequence[Operation]) -> JsonSchema:
    schemas: JsonSchema = {}
    described: list[Described] = [each.body for each in operations if each.body is not None]
    described += [answer.schema for each in operations for answer in each.answers if answer.schema is not None]
    for each in dict.fromkeys(described):
        schemas.update(definitions_of(each))
    return schemas


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
