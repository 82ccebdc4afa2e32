"""Requests to the admin port in pages: those that curl sends in a listing, and those that prose names.

A request is held against the OpenAPI document of its API: path and method, parameters of the query, and a JSON body.
"""

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

import jsonschema_rs

from sluicegate.gateway.admin.app import OPERATIONS
from sluicegate.gateway.admin.rest.openapi import document
from sluicegate.gateway.admin.semp import openapi as semp_openapi
from sluicegate.gateway.admin.semp import routes as semp
from sluicegate.gateway.admin.semp.envelope import BASE, Api
from support.pages.guides import SHELL, joined
from support.pages.listings import STEP

ADMIN_PORT: Final = re.compile(r"https?://[^/:]+:(?:8080|1943)/")
CURL: Final = re.compile(r"\bcurl (.*)")
VARIABLE: Final = re.compile(r"^(\w+)=(http\S+)$", re.MULTILINE)
NAMED: Final = re.compile(r"`(GET|POST|PUT|PATCH|DELETE)\s+(/[^`\s]*)`")
CLIENTS_TOO: Final = re.compile(r"/(?:TOPIC|QUEUE|FLOW)\b|/SEMP/|/prices/")  # of the port for HTTP clients, or relayed
OPTIONS_WITH_A_VALUE: Final = frozenset({"-H", "-o", "-u", "-w", "--cacert", "--header", "--output", "--user"})
BODIES: Final = frozenset({"-d", "--data", "--data-binary", "--json"})


class WrongRequest(Exception):
    """A page has a request that the API does not describe."""


@dataclass(frozen=True, slots=True)
class PageRequest:
    """One request of a page; a path in prose may have names in capitals, and no body."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: str | None = None


def requests_of(page: str) -> Iterator[PageRequest]:
    """Yield the requests to the admin port that a page has."""
    for listing in STEP.finditer(page):
        if listing["language"] in ("sh", "console"):
            variables = dict(VARIABLE.findall(listing["text"]))
            for line in joined(listing["text"]):
                if found := CURL.search(line):
                    yield from _sent(found[1], variables)
    for method, target in NAMED.findall(STEP.sub("", page)):
        if not CLIENTS_TOO.match(target):
            parts = urlsplit(target)
            yield PageRequest(method, parts.path, tuple(parse_qsl(parts.query, keep_blank_values=True)))


def _sent(arguments: str, variables: dict[str, str]) -> Iterator[PageRequest]:
    """Yield the request of a curl command, if it is for the admin port."""
    for name, value in variables.items():
        arguments = arguments.replace(f"${name}", value)
    pieces = shlex.shlex(arguments, posix=True, punctuation_chars=True)
    pieces.whitespace_split = True
    words = iter(list(takewhile(lambda word: word not in SHELL | {")"}, pieces)))
    method, url, body = "", "", None
    for word in words:
        if word in ("-X", "--request"):
            method = next(words)
        elif word in BODIES:
            body = next(words)
        elif word in OPTIONS_WITH_A_VALUE:
            next(words)
        elif not word.startswith("-"):
            url = word
    if ADMIN_PORT.match(url):
        parts = urlsplit(url)
        query = tuple(parse_qsl(parts.query, keep_blank_values=True))
        yield PageRequest(method or ("GET" if body is None else "POST"), parts.path, query, body)


def check_request(request: PageRequest) -> None:
    """Hold a request against the document of its API. Raises WrongRequest, jsonschema_rs.ValidationError."""
    described, path = _api_of(request.path)
    operation = _operation(described, path, request.method)
    known = {each["name"] for each in operation.get("parameters", ()) if each["in"] == "query"}
    if unknown := [name for name, _ in request.query if name not in known]:
        raise WrongRequest(f"{request.method} {request.path} has no parameter {unknown[0]}")
    if request.body is None:
        return
    content = operation.get("requestBody", {}).get("content", {})
    if "application/json" not in content:
        raise WrongRequest(f"{request.method} {request.path} takes no JSON")
    schema = {
        **content["application/json"]["schema"],
        "components": described["components"],  # to which its references lead
        "unevaluatedProperties": False,
    }
    jsonschema_rs.Draft202012Validator(schema).validate(json.loads(request.body))


def _api_of(path: str) -> tuple[Any, str]:
    """Return the document that describes a path, and the path within it."""
    for api in semp.OPERATIONS:
        if path.startswith(f"{BASE}/{api}/"):
            return _document(api), path.removeprefix(f"{BASE}/{api}")
    return _document(None), path


@cache
def _document(semp_api: Api | None) -> Any:
    return document(OPERATIONS) if semp_api is None else semp_openapi.document(semp_api, semp.OPERATIONS[semp_api])


def _operation(described: Any, path: str, method: str) -> Any:
    """Return the operation of a path; a literal part of a path counts more than a name."""
    segments = [unquote(each) for each in path.split("/")]
    fits = [
        template
        for template in described["paths"]
        if len(parts := template.split("/")) == len(segments)
        and all(a == b or a.startswith("{") for a, b in zip(parts, segments, strict=True))
        and method.lower() in described["paths"][template]
    ]
    if not fits:
        raise WrongRequest(f"there is no {method} {path}")
    return described["paths"][min(fits, key=lambda each: each.count("{"))][method.lower()]
