"""Connects the lanes of a worker, with the functions that create the clients of each protocol."""

import select
from collections.abc import Callable, Sequence
from typing import Final

from bench.load import amqp, flow, http, mqtt
from bench.load.lanes import End, Lane, SendingEnd, Worker
from bench.load.plan import AMQP, FLOW, HTTP, MQTT, MQTT_TLS, MQTT_WEBSOCKET, LoadPlan
from bench.wire.connections import Address

ConnectPublisher = Callable[[LoadPlan, Lane, int, Address, select.epoll], SendingEnd]
ConnectSubscribers = Callable[[LoadPlan, Lane, Address, select.epoll], Sequence[End]]

_PUBLISHERS: Final[dict[str, ConnectPublisher]] = {
    MQTT: mqtt.connect_publisher,
    MQTT_TLS: mqtt.connect_publisher,
    MQTT_WEBSOCKET: mqtt.connect_publisher,
    AMQP: amqp.connect_publisher,
    FLOW: flow.connect_publisher,
    HTTP: http.connect_publisher,
}
_SUBSCRIBERS: Final[dict[str, ConnectSubscribers]] = {
    MQTT: mqtt.connect_subscribers,
    MQTT_TLS: mqtt.connect_subscribers,
    MQTT_WEBSOCKET: mqtt.connect_subscribers,
    AMQP: amqp.connect_subscribers,
    FLOW: flow.connect_subscribers,
}


def connect_worker(plan: LoadPlan, lane_numbers: range, address_of: Callable[[str], Address]) -> Worker:
    """Connect all clients in some lanes of a plan, subscribers first, so that every message has a subscriber."""
    poll = select.epoll()
    lanes: list[Lane] = []
    ends: list[End] = []
    publisher_protocol = plan.publisher_protocol or plan.protocol
    for lane_number in lane_numbers:
        lane = Lane(plan, lane_number)
        ends += _SUBSCRIBERS[plan.protocol](plan, lane, address_of(plan.protocol), poll)
        for number in range(plan.publishers_per_lane):
            connect = _PUBLISHERS[publisher_protocol]
            publisher = connect(plan, lane, number, address_of(publisher_protocol), poll)
            lane.publishers.append(publisher)
            ends.append(publisher)
        lanes.append(lane)
    return Worker(plan, poll, lanes, ends)
