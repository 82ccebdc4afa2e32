"""Writes the reference of the admin API, from its OpenAPI document, where its page has a mark."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

from sluicegate.gateway.admin.app import OPERATIONS
from sluicegate.gateway.admin.rest.openapi import document

Json = dict[str, Any]  # a part of the document
PAGE: Final = "reference/rest-api.md"
MARK: Final = "<!-- operations -->"


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Replace the mark by the operations."""
    if page.file.src_uri != PAGE:
        return markdown
    assert markdown.count(MARK) == 1
    return markdown.replace(MARK, "\n".join(operations(document(OPERATIONS))))


def operations(api: Json) -> Iterator[str]:
    """Yield the operations, by the first part of their paths."""
    schemas = api["components"]["schemas"]
    subjects: dict[str, list[str]] = {}
    for path, methods in api["paths"].items():
        for method, described in methods.items():
            text = subjects.setdefault(f"/{path.split('/')[1]}", [])
            text.append(f"### {method.upper()} {path}\n")
            text.append(f"{described['summary']}.\n")
            text += table(("parameter", "in", "meaning"), map(parameter, described.get("parameters", [])))
            text += body(described, schemas)
            text += table(("answer", "meaning", "content"), answers(described["responses"]))
    for subject, text in subjects.items():
        yield f"## {subject}\n"
        yield from text


def parameter(each: Json) -> tuple[str, str, str]:
    """Return the row of a parameter."""
    schema = each["schema"]
    notes = [each.get("description", "")]
    if "minimum" in schema:
        notes.append(f"{schema['minimum']} to {schema['maximum']}")
    if "default" in schema:
        notes.append(f"default {schema['default']}")
    if each.get("required") and each["in"] != "path":
        notes.append("required")
    return f"`{each['name']}`", each["in"], ", ".join(filter(None, notes))


def body(described: Json, schemas: Json) -> Iterator[str]:
    """Yield the fields of the body, if there is one."""
    if "requestBody" not in described:
        return
    schema = described["requestBody"]["content"]["application/json"]["schema"]
    schema = schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    required = schema.get("required", [])
    rows = [
        (f"`{name}`{', required' if name in required else ''}", kind(field), field.get("description", ""))
        for name, field in schema.get("properties", {}).items()
    ]
    yield from table(("field of the body", "type", "meaning"), rows)


def kind(field: Json) -> str:
    """Return the type of a field, in words."""
    if "enum" in field:
        return ", ".join(f"`{each}`" for each in field["enum"])
    if "anyOf" in field:
        return " or ".join(kind(each) for each in field["anyOf"])
    if "$ref" in field:
        return str(field["$ref"]).rpartition("/")[2]
    if field.get("type") == "array":
        return f"array of {kind(field.get('items', {}))}"
    return str(field.get("type", "any"))


def answers(responses: Json) -> Iterator[tuple[str, str, str]]:
    """Yield the rows of what may be answered."""
    for status, answer in responses.items():
        yield status, answer["description"], ", ".join(f"`{each}`" for each in answer.get("content", {}))


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """Yield a table, if it has rows."""
    lines = [f"| {' | '.join(str(each).replace('|', '&#124;').replace('<', '&lt;') for each in row)} |" for row in rows]
    if lines:
        yield f"| {' | '.join(head)} |\n|{'---|' * len(head)}"
        yield from lines
        yield ""
