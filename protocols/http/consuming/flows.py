"""The flows of all HTTP workers of a message VPN, by the ids that stand in their URLs."""

from typing import Final, final

from sluicegate.actors.messages.directory import FindQueue, QueueHandle
from sluicegate.actors.messages.queues import BindFlow, BindRefused
from sluicegate.actors.runtime.runtime import ActorCell, Runtime
from sluicegate.actors.runtime.supervision import ONE_CONNECTION
from sluicegate.messaging.clients.rights import ClientRights
from sluicegate.messaging.limits.quota import SharedHttpFlows
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.queues.credit import CreditPool, CreditWindow
from sluicegate.messaging.selectors.selector import Selector
from sluicegate.protocols.http.codec.responses import BAD_REQUEST, UNAVAILABLE, HttpProblem, refusal_problem
from sluicegate.protocols.http.consuming.flow import FlowOptions, HttpFlow

PROTOCOL: Final = "http"
ID_BYTES: Final = 16
_BROKER_END: Final = "-"
_BROKER_DIGITS_MAX: Final = 4


@final
class HttpFlows:
    """Knows every flow from before it is bound until it has ended."""

    def __init__(
        self, runtime: Runtime, *, parent: ActorCell, queues: ActorCell, credit: CreditPool[Address], broker: int = 0
    ) -> None:
        """`broker` is the number of this broker among those of the machine; 0: it is the only one."""
        self._runtime = runtime
        self._parent = parent
        self._queues = queues
        self._credit = credit
        self._flows: dict[str, HttpFlow] = {}
        self._prefix = f"{broker}{_BROKER_END}" if broker else ""
        self._counts: dict[str, int] = {}  # of flows, by client
        self.shared: SharedHttpFlows | None = None  # those at other brokers of this machine count, too

    @property
    def count(self) -> int:
        """How many flows there are."""
        return len(self._flows)

    def new_id(self) -> str:
        """Return an id that cannot be guessed. It begins with the broker that has the flow, where there are several."""
        return self._prefix + self._runtime.rng.randbytes(ID_BYTES).hex()

    async def bind(
        self,
        options: FlowOptions,
        selector: Selector | None,
        rights: ClientRights,
        *,
        flows_max: int,
        flows_per_client_max: int,
    ) -> HttpFlow:
        """Bind a flow. Raises HttpProblem, ClientDenied."""
        named = FindQueue(options.queue_name, rights, consumes=True, anywhere=True)
        handle: QueueHandle | None = await self._queues.ask(named)
        if handle is None:
            raise HttpProblem(BAD_REQUEST, f"there is no queue {options.queue_name!r:.300}", reason="Queue Not Found")
        self._check_room(options, flows_max, flows_per_client_max)
        flow = self._spawn(options, handle.cell)
        client, user = options.client, options.user
        inbox, window = flow.cell.inbox, flow.window
        request = BindFlow(flow.urn, client, user, inbox, window, PROTOCOL, selector, rights=rights)
        try:
            await handle.cell.ask(request)
        except BindRefused as refusal:
            flow.gone("it was never bound")
            raise refusal_problem(str(refusal), "") from None
        if flow.end_reason:
            raise HttpProblem(UNAVAILABLE, flow.end_reason, reason="Queue Shutdown")
        return flow

    def find(self, flow_id: str, user: str) -> HttpFlow | None:
        """Return a user's flow."""
        flow = self._flows.get(flow_id)
        return flow if flow is not None and flow.options.user == user and not flow.end_reason else None

    def tick(self, now_ms: int) -> None:
        """Bring time to every flow, and forget those that have ended."""
        for flow in list(self._flows.values()):
            flow.tick(now_ms)
        self._forget_ended()

    def end(self, reason: str, users: frozenset[str] | None = None) -> None:
        """End every flow, or those of these users only."""
        for flow_id, flow in list(self._flows.items()):
            if users is None or flow.options.user in users:
                flow.end(reason)
                self._drop(flow_id)

    def end_of(self, client: str, reason: str) -> bool:
        """End the flows of a client. Return whether it had any."""
        its = [flow_id for flow_id, flow in self._flows.items() if flow.options.client == client]
        for flow_id in its:
            self._flows[flow_id].end(reason)
            self._drop(flow_id)
        return bool(its)

    def _check_room(self, options: FlowOptions, flows_max: int, flows_per_client_max: int) -> None:
        """Raise HttpProblem when there may be no other flow, of any client or of this one.

        A client is a user or, where strangers are let in, a host.
        """
        self._forget_ended()
        if len(self._flows) >= flows_max:
            raise _too_many(f"HTTP clients have {flows_max} flows, the most allowed")
        client = _client_of(options)
        its_count = self._counts.get(client, 0)
        if its_count >= flows_per_client_max:
            raise _too_many_of_client(its_count)
        if self.shared is None:
            return
        is_of_all = self.shared.refuses_all(
            len(self._flows) + 1, flows_max, client, its_count + 1, flows_per_client_max
        )
        if is_of_all:
            raise _too_many(f"HTTP clients have {flows_max} flows, the most allowed")
        if is_of_all is not None:
            raise _too_many_of_client(flows_per_client_max)

    def _drop(self, flow_id: str) -> None:
        """Forget a flow."""
        client = _client_of(self._flows.pop(flow_id).options)
        count = self._counts[client] - 1
        if count:
            self._counts[client] = count
        else:
            del self._counts[client]
        if self.shared is not None:
            self.shared.settle(len(self._flows), client, count)

    def _forget_ended(self) -> None:
        for flow_id, flow in list(self._flows.items()):
            if flow.end_reason:
                self._drop(flow_id)

    def _spawn(self, options: FlowOptions, queue: ActorCell) -> HttpFlow:
        window: CreditWindow[Address] = CreditWindow(0, self._credit)
        cell = self._runtime.spawn(
            lambda cell: HttpFlow(cell, options=options, queue=queue, window=window),
            kind="flow",
            name=options.flow_id[:8],
            policy=ONE_CONNECTION,
            parent=self._parent,
        )
        flow: HttpFlow = cell.behaviour
        self._flows[options.flow_id] = flow
        client = _client_of(options)
        self._counts[client] = self._counts.get(client, 0) + 1
        return flow


def broker_of(flow_id: str) -> int:
    """Return the number of the broker of this machine that has a flow, by its id or what begins with it; 0: none."""
    number, end, _ = flow_id.partition(_BROKER_END)
    is_number = number.isascii() and number.isdigit() and len(number) <= _BROKER_DIGITS_MAX
    return int(number) if end and is_number else 0


def _client_of(options: FlowOptions) -> str:
    """Return whose flow it is: a user's or, where strangers are let in, a host's."""
    return f"user {options.user}" if options.user else f"host {options.host}"


def _too_many_of_client(count: int) -> HttpProblem:
    return _too_many(f"this client has {count} flows, the most allowed: DELETE those that are done")


def _too_many(detail: str) -> HttpProblem:
    return HttpProblem(UNAVAILABLE, detail, reason="Too Many Flows")
