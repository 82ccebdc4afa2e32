"""How the lanes of a worker are connected: which functions make the clients of which protocol."""

import select
from collections.abc import Callable, Sequence
from typing import Final

from bench import amqp_load, flow_load, http_load, mqtt_load
from bench.connections import Address
from bench.lanes import End, Lane, SendingEnd, Worker
from bench.load_plan import AMQP, FLOW, HTTP, MQTT, MQTT_TLS, MQTT_WEBSOCKET, LoadPlan

ConnectPublisher = Callable[[LoadPlan, Lane, int, Address, select.epoll], SendingEnd]
ConnectSubscribers = Callable[[LoadPlan, Lane, Address, select.epoll], Sequence[End]]

_PUBLISHERS: Final[dict[str, ConnectPublisher]] = {
    MQTT: mqtt_load.connect_publisher,
    MQTT_TLS: mqtt_load.connect_publisher,
    MQTT_WEBSOCKET: mqtt_load.connect_publisher,
    AMQP: amqp_load.connect_publisher,
    FLOW: flow_load.connect_publisher,
    HTTP: http_load.connect_publisher,
}
_SUBSCRIBERS: Final[dict[str, ConnectSubscribers]] = {
    MQTT: mqtt_load.connect_subscribers,
    MQTT_TLS: mqtt_load.connect_subscribers,
    MQTT_WEBSOCKET: mqtt_load.connect_subscribers,
    AMQP: amqp_load.connect_subscribers,
    FLOW: flow_load.connect_subscribers,
}


def connect_worker(plan: LoadPlan, lane_numbers: range, address_of: Callable[[str], Address]) -> Worker:
    """Connect everything in some lanes of a plan, subscribers first: nothing is published to nobody."""
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
