"""The referee of one session of AMQP 1.0: windows, handles, deliveries, dispositions and transactions (2.5, 2.6, 4)."""

from support.referees.amqp.grammar import Said
from support.referees.amqp.link import Delivery, LinkReferee
from support.referees.violations import ClientViolation, WireViolation, expect, serial_after, serial_ahead

NOT_DECLARED = b""


class Transactions:
    """The transactions of a connection that are declared and not discharged, by their ids."""

    def __init__(self) -> None:
        self.open: set[bytes] = set()
        self.spoiled: set[bytes] = set()  # of these: something in them was rejected


class SessionReferee:
    """Judges one session, from the client's begin to the gateway's end."""

    def __init__(self, asked: Said, transactions: Transactions) -> None:
        self.begun: Said | None = None  # the gateway's begin
        self._asked = asked
        self._transactions = transactions
        self._has_ended = False
        self._client_has_ended = False
        self._next_incoming_id = asked.number("next-outgoing-id")
        self._next_outgoing_id = 0
        self._window = asked.number("incoming-window")  # transfers that the client still takes
        self._next_delivery_id = -1
        self._last_client_id = -1
        self._links: dict[int, LinkReferee] = {}  # by the gateway's handle
        self._by_client: dict[int, LinkReferee] = {}  # by the client's
        self._unanswered: list[LinkReferee] = []  # attaches
        self._sent: dict[int, Delivery] = {}  # by the gateway, and settled by nobody
        self._came: dict[int, Delivery] = {}  # of the client, and settled by nobody
        self._let_go: set[int] = set()  # of what the gateway sent: the client has settled it, and may hear of it once
        self._owes_flow = False

    # --- the gateway ---

    def gateway_begins(self, said: Said) -> None:
        self.begun = said
        self._next_outgoing_id = said.number("next-outgoing-id")

    def gateway_says(self, said: Said, payload: bytes) -> None:
        """Judge a frame of the gateway on this session. Raises WireViolation."""
        name = said.name
        if name == "transfer":
            self._transfer(said, payload)
        elif name == "disposition":
            self._dispose(said)
        elif name == "flow":
            self._flow(said)
        elif name == "attach":
            self._attach(said)
        elif name == "detach":
            self._detach(said)
        else:
            if self._client_has_ended and not said.has("error"):
                self.judge_echo()
            self._has_ended = True

    def judge_echo(self) -> None:
        """2.7.4: a flow was asked for by `echo`, and the session ends in good order."""
        waiting = [each for each in self._links.values() if each.owes_flow and not each.client_has_detached]
        expect(not self._owes_flow and not waiting, "2.7.4", "echo was not answered, on {}", waiting)

    def _attach(self, said: Said) -> None:
        link = next(
            (
                each
                for each in self._unanswered
                if each.asked.text("name") == said.text("name") and each.gateway_sends != said.flag("role")
            ),
            None,
        )
        if link is None:
            raise WireViolation(f"2.6.3: {said} answers no attach")
        handle = said.number("handle")
        expect(handle not in self._links, "2.6.2", "{}, and that handle is attached", said)
        limit = self._asked.number("handle-max", 0xFFFF_FFFF)
        expect(handle <= limit, "2.7.2", "{}, and the client takes handles up to {}", said, limit)
        self._unanswered.remove(link)
        self._links[handle] = link
        link.gateway_attaches(said)

    def _detach(self, said: Said) -> None:
        link = self._link_of(said)
        expect(said.flag("closed") or not link.client_has_closed, "2.6.6", "{}, and the client has closed it", said)
        del self._links[link.handle]
        for deliveries in (self._sent, self._came):
            for each in [each for each in deliveries.values() if each.link is link]:
                del deliveries[each.id]

    def _flow(self, said: Said) -> None:
        expect(
            said.number("next-incoming-id") == self._next_incoming_id,
            "2.7.4",
            "{}: {} is next",
            said,
            self._next_incoming_id,
        )
        expect(
            said.number("next-outgoing-id") == self._next_outgoing_id,
            "2.7.4",
            "{}: {} is next",
            said,
            self._next_outgoing_id,
        )
        self._owes_flow = False
        if said.has("handle"):
            self._link_of(said).gateway_flows(said)
        else:
            of_links = [each for each in ("delivery-count", "link-credit", "available", "drain") if said.has(each)]
            expect(not of_links, "2.7.4", "{} of no link has {}", said, of_links)

    def _transfer(self, said: Said, payload: bytes) -> None:
        link = self._link_of(said)
        expect(self._window > 0, "2.5.6", "{}, and the window of the client is used up", said)
        self._window -= 1
        self._next_outgoing_id = serial_after(self._next_outgoing_id)
        if link.under_way is None:
            expect(said.has("delivery-id"), "2.7.5", "{} without an id", said)
            delivery_id = said.number("delivery-id")
            expect(
                self._next_delivery_id in (-1, delivery_id), "2.6.12", "{}: {} is next", said, self._next_delivery_id
            )
            self._next_delivery_id = serial_after(delivery_id)
            begun = link.gateway_begins(said, delivery_id)
            self._sent[delivery_id] = begun
            link.tags.add(begun.tag)
        delivery = link.under_way
        assert delivery is not None
        link.gateway_transfers(said, payload)
        if delivery.is_settled:
            self._settled(self._sent, delivery.id)

    def _settled(self, deliveries: dict[int, Delivery], delivery_id: int) -> None:
        delivery = deliveries.pop(delivery_id, None)
        if delivery is not None and deliveries is self._sent:
            delivery.link.tags.discard(delivery.tag)

    def _dispose(self, said: Said) -> None:
        """2.7.6: of deliveries that exist, and have not been settled."""
        is_receiver = said.flag("role")
        first = said.number("first")
        last = said.number("last", first)
        deliveries = self._came if is_receiver else self._sent
        expect(serial_ahead(last, first) >= 0, "2.7.6", "{}", said)
        for offset in range(serial_ahead(last, first) + 1):
            delivery = deliveries.get(serial_after(first, offset))
            if delivery is None and not is_receiver and serial_after(first, offset) in self._let_go:
                self._let_go.discard(serial_after(first, offset))  # what both have said has crossed
                continue
            if delivery is None:
                raise WireViolation(f"2.7.6: {said}, and {serial_after(first, offset)} is not unsettled")
            if is_receiver:
                self._answer(delivery, said)
            if said.flag("settled"):
                self._settled(deliveries, delivery.id)

    def _answer(self, delivery: Delivery, said: Said) -> None:
        """What becomes of a delivery of the client."""
        state = said.composite("state")
        # 2.8.3: in mode second the receiver settles after the sender, which would have ended the delivery.
        expect(not (delivery.is_second and said.flag("settled")), "2.8.3", "{} of {}, settled first", said, delivery)
        if state is None:
            return
        if delivery.link.is_coordinator:
            self._answer_request(delivery, state)
        elif delivery.txn_id:
            self._answer_within(delivery, state)
        else:
            _judge_outcome(delivery, state)

    def _answer_within(self, delivery: Delivery, state: Said) -> None:
        """4.4.1: what becomes of a delivery in a transaction. What does not become part of it is rejected."""
        txn_id = delivery.txn_id
        if state.name == "rejected":
            self._transactions.spoiled.add(txn_id)
            return
        expect(state.name == "transactional-state", "4.4.1", "{}: {}, in a transaction", delivery, state)
        expect(state.binary("txn-id") == txn_id, "4.4.1", "{}: {}, in {!r}", delivery, state, txn_id)
        expect(txn_id in self._transactions.open, "4.4.1", "{}: {}, in no transaction", delivery, state)
        _judge_outcome(delivery, state.composite("outcome"))

    def _answer_request(self, delivery: Delivery, state: Said) -> None:
        """4.2, 4.3: the response of the coordinator."""
        request = delivery.request()
        if request is None or state.name == "rejected":
            return
        if request.name == "declare":
            txn_id = state.binary("txn-id")
            expect(state.name == "declared" and txn_id != b"", "4.2", "{} is answered with {}", request, state)
            expect(txn_id not in self._transactions.open, "4.5.5", "{}, and that is open", state)
            self._transactions.open.add(txn_id)
        else:
            txn_id = request.binary("txn-id")
            is_spoiled = txn_id in self._transactions.spoiled and not request.flag("fail")
            expect(state.name == "accepted" and not is_spoiled, "4.3", "{} is answered with {}", request, state)
            expect(txn_id in self._transactions.open, "4.3", "{} was accepted", request)
            self._transactions.open.discard(txn_id)

    def _link_of(self, said: Said) -> LinkReferee:
        link = self._links.get(said.number("handle"))
        if link is None:
            raise WireViolation(f"2.6.2: {said}, and nothing is attached there")
        return link

    # --- the client ---

    def client_ends(self) -> None:
        self._client_has_ended = True

    def client_says(self, said: Said, payload: bytes) -> None:
        """Learn a frame of the client on this session. Raises ClientViolation."""
        if self._has_ended:
            return
        if said.name == "attach":
            handle = said.number("handle")
            if handle in self._by_client:
                raise ClientViolation(f"2.6.2: {said}")
            self._by_client[handle] = link = LinkReferee(said)
            self._unanswered.append(link)
        elif said.name == "flow":
            self._client_flows(said)
        elif said.name == "transfer":
            self._client_transfers(said, payload)
        elif said.name == "disposition":
            self._client_disposes(said)
        elif said.name == "detach":
            link = self._client_link_of(said)
            link.client_has_detached = True
            link.client_has_closed = said.flag("closed")
            del self._by_client[said.number("handle")]

    def _client_flows(self, said: Said) -> None:
        begun = 0 if self.begun is None else self.begun.number("next-outgoing-id")
        seen = said.number("next-incoming-id", begun)
        self._window = max(0, serial_ahead(serial_after(seen, said.number("incoming-window")), self._next_outgoing_id))
        if said.has("handle"):
            self._client_link_of(said).client_flows(said)
        else:
            self._owes_flow |= said.flag("echo")

    def _client_transfers(self, said: Said, payload: bytes) -> None:
        self._next_incoming_id = serial_after(self._next_incoming_id)
        link = self._client_link_of(said)
        begun = link.client_transfers(said, payload, self._last_client_id)
        if begun is not None:
            self._last_client_id = begun.id
            is_attached = link.answer is not None and self._links.get(link.handle) is link
            if is_attached:
                self._came[begun.id] = begun
        if said.flag("settled") or said.flag("aborted"):
            self._settled(self._came, self._last_client_id if begun is None else begun.id)

    def _client_disposes(self, said: Said) -> None:
        if not said.flag("settled"):
            return
        first = said.number("first")
        span = serial_ahead(said.number("last", first), first)
        deliveries = self._sent if said.flag("role") else self._came
        for delivery_id in [each for each in deliveries if 0 <= serial_ahead(each, first) <= span]:
            self._settled(deliveries, delivery_id)
            if deliveries is self._sent:
                self._let_go.add(delivery_id)

    def _client_link_of(self, said: Said) -> LinkReferee:
        link = self._by_client.get(said.number("handle"))
        if link is None:
            raise ClientViolation(f"2.6.2: {said}, and nothing is attached there")
        return link


def _judge_outcome(delivery: Delivery, outcome: Said | None) -> None:
    """3.5.3: one of those that the source names, where it names any."""
    named = delivery.link.outcomes
    if outcome is None or not named or outcome.name == "received":
        return
    expect(
        f"amqp:{outcome.name}:list" in named, "3.5.3", "{} has {}, and the source names {}", delivery, outcome, named
    )
