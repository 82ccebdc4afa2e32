"""Create, change and delete queues, on asyncio.

Flow: provisioning. The attributes are those of `docs/concepts/queues.md`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from sluicegate.protocols.flow.client.aio.base import ClientBase
from sluicegate.protocols.flow.client.session.requests import Request
from sluicegate.protocols.flow.codec.frame import ALTER, DEPROVISION, PROVISION
from sluicegate.protocols.flow.codec.frames.provision import (
    AS_TEMPLATES_SAY,
    DURABLE,
    TEMPORARY,
    Provision,
    Provisioned,
)
from sluicegate.protocols.flow.codec.limits import ATTRIBUTES_BYTES_MAX


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue as it is in force."""

    name: str
    attributes: dict[str, object]  # all of them, and `subscriptions`


class Queues:
    """Provisioning by one client. Each call raises RequestRefused, or the error that ended the client.

    `create` and `delete` raise RequestInterrupted when the connection breaks before their answer: whether they were
    done is not known then.
    """

    def __init__(self, client: ClientBase) -> None:
        self._client = client

    async def create(
        self, name: str = "", attributes: Mapping[str, object] | None = None, *, durable: bool | None = None
    ) -> Queue:
        """Create a queue; attributes that are not given come from the gateway's templates.

        One that is not durable is this client's only, and ends with its consumer; without a name the gateway finds one.
        """
        durability = AS_TEMPLATES_SAY if durable is None else DURABLE if durable else TEMPORARY
        return await self._ask(PROVISION, name, attributes, durability=durability)

    async def change(self, name: str, attributes: Mapping[str, object]) -> Queue:
        """Change attributes; `subscriptions` is replaced as a whole."""
        return await self._ask(ALTER, name, attributes)

    async def delete(self, name: str) -> None:
        """Delete a queue with its messages."""
        await self._ask(DEPROVISION, name, None)

    async def _ask(
        self, kind: int, name: str, attributes: Mapping[str, object] | None, *, durability: int = AS_TEMPLATES_SAY
    ) -> Queue:
        body = json.dumps(dict(attributes)).encode() if attributes else b""
        if len(body) > ATTRIBUTES_BYTES_MAX:
            raise ValueError(f"{len(body)} bytes of attributes; at most {ATTRIBUTES_BYTES_MAX} are taken")
        request = Request(
            lambda request_id: Provision(kind, request_id, name, durability, body).encode(), may_repeat=kind == ALTER
        )
        answer = await self._client.ask(request)
        assert isinstance(answer, Provisioned), "the gateway answers with what was asked for"
        return Queue(answer.name, json.loads(answer.attributes) if answer.attributes else {})
