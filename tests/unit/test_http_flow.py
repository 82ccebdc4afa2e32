"""What becomes of an HTTP worker's flow that its queue ends."""

import logging

import pytest

from actors.data_messages import Deliveries
from actors.loop_actor import LoopActor
from actors.messages import FlowGone
from lone_actors import Idle, lone_runtime, spawned, turn
from messaging.flows import DeliveryRules
from messaging.ledger import Ledger
from protocols.http.flow import FlowTerms, HttpFlow
from unit.cores.messages import batch_of, flow_of, published, window_of


def test_what_is_delivered_behind_the_end_of_a_flow_is_the_queues(caplog: pytest.LogCaptureFixture) -> None:
    """It was on its way as the queue's egress was shut down: the partition takes it back with the flow."""
    terms = FlowTerms("f", queue_name="q", user="", host="h", client="c", lock_ms=1000, unsettled_max=10)
    window = window_of(10)
    with lone_runtime() as runtime:
        queue = spawned(runtime, Idle)
        flow = spawned(runtime, lambda cell: LoopActor(cell, HttpFlow(cell, terms=terms, queue=queue, window=window)))
        ledger, bound = Ledger(durable=False, rules=DeliveryRules()), flow_of(1, window=window)
        ledger.attach(bound, 1)
        batch = batch_of([b"late"])
        ledger.append(batch, published(batch))
        flow.inbox.post(FlowGone(1, "503 Queue Shutdown", may_return=True))
        flow.inbox.post(Deliveries(bound, queue.inbox, 0, ledger.deliver(0)))
        turn(runtime)
        assert window.used == 0
        assert [each.message for each in caplog.records if each.levelno >= logging.ERROR] == []
        assert flow.inbox.dead_letters == 1
        runtime.stop()
