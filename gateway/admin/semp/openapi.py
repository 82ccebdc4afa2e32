"""The OpenAPI documents of SEMP, one for each API, built from the tables of operations and attributes."""

import re
from collections.abc import Sequence
from typing import Any, Final

from sluicegate.gateway.admin.semp.envelope import BASE, Api, SempOperation
from sluicegate.gateway.admin.semp.objects.attributes import TEXT, Schema, SempObject
from sluicegate.gateway.admin.semp.query import COUNT_DEFAULT, COUNT_MAX
from sluicegate.gateway.build import VERSION

_COUNT: Final[Schema] = {"type": "integer", "minimum": 1, "maximum": COUNT_MAX, "default": COUNT_DEFAULT}
_META: Final[Schema] = {
    "type": "object",
    "properties": {
        "request": {"type": "object", "properties": {"method": TEXT, "uri": TEXT}, "required": ["method", "uri"]},
        "responseCode": {"type": "integer"},
        "count": {"type": "integer", "description": "number of objects on all pages"},
        "paging": {"type": "object", "properties": {"cursorQuery": TEXT, "nextPageUri": TEXT}},
        "error": {
            "type": "object",
            "properties": {"code": {"type": "integer"}, "description": TEXT, "status": TEXT},
            "required": ["code", "description", "status"],
        },
    },
    "required": ["request", "responseCode"],
}
VERBS: Final = {"GET": "get", "POST": "create", "PUT": "replace", "PATCH": "update", "DELETE": "delete"}
_SELECT: Final = (
    "select",
    "attributes and collections to return; `*` stands for any characters, a leading `-` excludes",
    TEXT,
)
_OF_PAGES: Final = (
    ("where", "conditions that objects must meet, such as `queueName==orders*,msgSpoolUsage>0`", TEXT),
    ("count", "maximum number of objects per page", _COUNT),
    ("cursor", "cursor from `meta.paging.cursorQuery` of the previous page", TEXT),
)


def document(api: Api, operations: Sequence[SempOperation]) -> Schema:
    """Return the OpenAPI 3.1 document of an API."""
    paths: dict[str, Schema] = {}
    schemas: Schema = {"Meta": _META}
    for each in operations:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(api, each)
        if each.kind is not None:
            schemas[_name_of(each.path, of_many=False)] = object_schema(each.kind, each.kind.names())
    return {
        "openapi": "3.1.0",
        "info": {"title": f"Sluicegate, SEMP v2 {api}", "version": VERSION},
        "servers": [{"url": f"{BASE}/{api}"}],
        "paths": paths,
        "components": {"schemas": schemas},
    }


def object_schema(kind: SempObject[Any], names: Sequence[str]) -> Schema:
    """Return the schema of a body or an answer that may have these attributes of a kind."""
    return {
        "type": "object",
        "properties": {
            each.name: {
                **each.schema,
                "description": each.meaning,
                **({"writeOnly": True} if each.read is None else {}),
            }
            for each in kind.attributes
            if each.name in names
        },
    }


def _name_of(path: str, *, of_many: bool) -> str:
    """Return the words of a path in one: of `/msgVpns/{msgVpnName}/queues` it is `MsgVpnQueue`, or `MsgVpnQueues`."""
    words = [part for part in path.split("/") if part and not part.startswith("{")]
    plural = words[-1] if of_many else words[-1].removesuffix("s")
    return "".join(word[0].upper() + word[1:] for word in (*(each.removesuffix("s") for each in words[:-1]), plural))


def _id_of(api: Api, operation: SempOperation) -> str:
    if api == "action":
        return "do" + _name_of(operation.path, of_many=True)
    return VERBS[operation.method] + _name_of(operation.path, of_many=operation.of_many)


def _operation(api: Api, operation: SempOperation) -> Schema:
    parameters: list[Schema] = [
        {"name": name, "in": "path", "required": True, "schema": {**TEXT, "minLength": 1}}
        for name in re.findall(r"{(\w+)}", operation.path)
    ]
    if operation.kind is not None and operation.method == "GET":
        parameters += [
            {"name": name, "in": "query", "description": meaning, "schema": schema}
            for name, meaning, schema in (_SELECT, *(_OF_PAGES if operation.of_many else ()))
        ]
    described: Schema = {
        "operationId": _id_of(api, operation),
        "summary": operation.summary,
        "responses": {
            "200": _response("done", _data_of(operation)),
            "default": _response("`meta.error` describes the error, and what is allowed", {}),
        },
    }
    if parameters:
        described["parameters"] = parameters
    if operation.body is not None:
        described["requestBody"] = {"required": True, "content": {"application/json": {"schema": operation.body}}}
    return described


def _data_of(operation: SempOperation) -> Schema:
    if operation.kind is None:
        return {}
    data: Schema = {"$ref": f"#/components/schemas/{_name_of(operation.path, of_many=False)}"}
    return {"data": {"type": "array", "items": data} if operation.of_many else data}


def _response(meaning: str, members: Schema) -> Schema:
    meta: Schema = {"$ref": "#/components/schemas/Meta"}
    schema = {"type": "object", "properties": {"meta": meta, **members}, "required": ["meta", *members]}
    return {"description": meaning, "content": {"application/json": {"schema": schema}}}
