"""One method at one path of SEMP. Routes and OpenAPI documents are made from tables of these."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from starlette.requests import Request

from sluicegate.gateway.admin.semp.envelope import Asked, Document
from sluicegate.gateway.admin.semp.objects.attributes import Schema, SempObject
from sluicegate.gateway.operations.interface import NodePort

BASE: Final = "/SEMP/v2"

Api = Literal["monitor", "config", "action"]
Performing = Callable[[NodePort, Request, Asked], Awaitable[Document]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SempOperation:
    """One operation. `path` is what follows the name of the API; what it is about, `kind` says."""

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str
    summary: str
    perform: Performing
    kind: SempObject[Any] | None = None  # of the data in its answer; None: it has none
    of_many: bool = False  # the answer is a page of objects
    body: Schema | None = None  # of what is sent
