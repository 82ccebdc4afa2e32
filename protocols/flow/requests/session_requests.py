"""Requests that need no flow: how many may wait for their answers, and who answers them."""

from typing import TYPE_CHECKING, Final, TypeAlias, final

import pykka

from sluicegate.messaging.bulk.durable_cursors import CursorRefused
from sluicegate.messaging.bulk.staging import StagingRefused
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec.errors import PeerViolation, RequestRefused
from sluicegate.protocols.flow.codec.frame import SESSION
from sluicegate.protocols.flow.codec.frames.provision import Provision
from sluicegate.protocols.flow.codec.frames.stage import StageRows
from sluicegate.protocols.flow.codec.limits import REQUESTS_MAX, STAGES_MAX
from sluicegate.protocols.flow.requests.bulk import BULK_REQUESTS, BulkRequest, answer_bulk
from sluicegate.protocols.flow.requests.provisioning import answer_provision
from sluicegate.protocols.flow.requests.refusals import REFUSAL_CODES, refuse

if TYPE_CHECKING:
    from sluicegate.protocols.flow.connection import FlowConnection

SessionRequest: TypeAlias = BulkRequest | Provision
SESSION_REQUESTS: Final = (*BULK_REQUESTS, Provision)


@final
class SessionRequests:
    """Those of one connection."""

    def __init__(self) -> None:
        self._open_count = 0
        self._stages_count = 0  # of them, those that hold rows

    def take(self, connection: "FlowConnection", asked: SessionRequest) -> None:
        """Carry out a request."""
        is_stage = isinstance(asked, StageRows)
        if self._open_count >= REQUESTS_MAX or (is_stage and self._stages_count >= STAGES_MAX):
            text = f"a connection has at most {REQUESTS_MAX} requests without answer, {STAGES_MAX} of them STAGE"
            refuse(connection, SESSION, asked.request_id, codes.TOO_MANY, text)
            return
        self._open_count += 1
        self._stages_count += int(is_stage)
        connection.carry_out(self._carry_out(connection, asked))

    async def _carry_out(self, connection: "FlowConnection", asked: SessionRequest) -> None:
        code, text, answer = codes.NONE, "", b""
        try:
            if isinstance(asked, Provision):
                answer = await answer_provision(connection, asked)
            else:
                answer = await answer_bulk(connection, asked)
        except RequestRefused as refusal:
            code, text = refusal.code, str(refusal)
        except PeerViolation as violation:
            code, text = violation.code, violation.text
        except (CursorRefused, StagingRefused) as refused:
            code, text = REFUSAL_CODES[refused.code], str(refused)
        except pykka.ActorDeadError:
            code, text = codes.NOT_FOUND, "the queue has ended meanwhile"
        finally:
            self._open_count -= 1
            self._stages_count -= int(isinstance(asked, StageRows))
        if code == codes.NONE:
            connection.send(answer)
        else:
            refuse(connection, SESSION, asked.request_id, code, text)
