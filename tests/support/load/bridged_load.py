"""Load that crosses a foreign broker: published at one gateway, bridged there, bridged on, consumed at another one."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

from support.foreign.brokers import ForeignBroker
from support.load.delivery_record import DeliveryRecord
from support.load.mqtt_clients import WireClient, WireConsumer, WirePublisher, hung_up_at_the_end, run_until
from support.processes.gateway import GatewayProcess, wait_until

DRAIN_S = 90
AHEAD_MAX = 500  # messages under way: a slow broker is not to have all of them at the end
OUT, BACK = "load", "back"  # queues of the two gateways


def bridge_to(url: str, rules: str, *, name: str, credentials: str = "") -> str:
    """Return the configuration of a gateway with one bridge. `rules` and `credentials`: lines of YAML."""
    lines = [
        f"node: {{name: {name}}}",
        "bridges:",
        "  - name: across",
        f"    remote_url: {url}",
        "    retry_delay_s: 1",
    ]
    lines += [f"    {line}" for line in (credentials + "\n" + rules).splitlines() if line]
    return "\n".join(lines) + "\n"


def _connections(gateway: GatewayProcess) -> float:
    return gateway.metric("sluicegate_bridge_connections_total", bridge="across")


def _is_connected_since(gateway: GatewayProcess, count: float) -> bool:
    return _connections(gateway) > count and gateway.metric("sluicegate_bridge_up", bridge="across") == 1


class BridgedLoad:
    """Two gateways, and clients that publish to the one and consume from the other."""

    def __init__(self, first: GatewayProcess, second: GatewayProcess) -> None:
        self.first = first
        self.second = second
        self._lost_count = 0  # messages that are not expected any more
        self.record = DeliveryRecord("the queue behind both bridges")
        keys = [f"k{number}" for number in range(8)]
        self.publishers = [
            WirePublisher("p1", topic=OUT, keys=keys[:4], qos=1),
            WirePublisher("p2", topic=OUT, keys=keys[4:], qos=1),
        ]
        self.consumer = WireConsumer("c1", filter_text=f"$queue/{BACK}", qos=1, record=self.record.note, hold_count=20)
        self.clients: list[WireClient] = [self.consumer, *self.publishers]

    @classmethod
    @contextmanager
    def between(cls, folder: Path, url: str, *, there: str, back: str, credentials: str = "") -> Iterator[Self]:
        """Start both gateways with bridges to a foreign broker, and connect the clients.

        `there`: where the first bridge sends to, and `back`: what the second one reads, as keys of their rules.
        """
        with ExitStack() as stack:
            gateways = []
            for name, rules in (
                ("first", f"outgoing:\n- {{queue: {OUT}, {there}}}"),
                ("second", f"incoming:\n- {{queue: {BACK}, {back}}}"),
            ):
                file = folder / f"{name}.yaml"
                file.write_text(bridge_to(url, rules, name=name, credentials=credentials))
                gateways.append(stack.enter_context(GatewayProcess(folder / name, config_file=file)))
            gateways[0].create_queue(OUT, subscriptions=[f"{OUT}/>"])
            gateways[1].create_queue(BACK)
            # Not before there are subscriptions does the foreign broker keep what is published.
            wait_until(
                lambda: all(_is_connected_since(each, 0) for each in gateways), within_s=DRAIN_S, what="both bridges"
            )
            load = cls(*gateways)
            stack.enter_context(hung_up_at_the_end(load.clients))
            load.connect()
            yield load

    @classmethod
    @contextmanager
    def over_mqtt(cls, folder: Path, broker: ForeignBroker, *, version: str, qos: int = 1) -> Iterator[Self]:
        """Start both gateways with bridges to a foreign broker's MQTT, whose session keeps the messages."""
        credentials = f"mqtt_version: '{version}'\n{broker.credentials(folder)}"
        url = f"mqtt://127.0.0.1:{broker.mqtt_port}"
        there = f"add_prefix: across/, qos: {qos}"
        back = f"remote_topic: across/{OUT}/+, qos: {qos}"
        with cls.between(folder, url, there=there, back=back, credentials=credentials) as load:
            yield load

    def connect(self) -> None:
        """Connect those that are not connected."""
        if self.consumer.socket is None:
            self.consumer.connect(self.second.mqtt_port)
        for publisher in self.publishers:
            if publisher.socket is None:
                publisher.connect(self.first.mqtt_port)

    def deliver(self, count: int) -> None:
        """Run until so many more messages came through."""
        wanted = len(self.record.received) + count
        run_until(
            self.clients,
            lambda: self._has(wanted),
            within_s=DRAIN_S,
            what=f"{count} messages behind both bridges",
        )

    def _has(self, count: int) -> bool:
        confirmed = sum(publisher.confirmed_count for publisher in self.publishers)
        for publisher in self.publishers:
            publisher.publishing = confirmed < len(self.record.received) + self._lost_count + AHEAD_MAX
        return len(self.record.received) >= count

    def kill(self, gateway: GatewayProcess) -> None:
        """Kill a gateway, start it again, and have its clients come back."""
        gateway.kill9()
        for client in [self.consumer] if gateway is self.second else self.publishers:
            client.read_to_the_end()
        gateway.start()
        self.connect()

    def losing(self, lose: Callable[[], None]) -> dict[str, int]:
        """Have the broker between the gateways lose what it has, and wait until both bridges are connected again.

        Returns the last number of each key that was published until then: nothing up to there is expected any more.
        """
        gateways = (self.first, self.second)
        before = [_connections(gateway) for gateway in gateways]
        lose()
        wait_until(
            lambda: all(_is_connected_since(gateway, count) for gateway, count in zip(gateways, before, strict=True)),
            within_s=DRAIN_S,
            what="both bridges",
        )
        self._lost_count = sum(publisher.confirmed_count for publisher in self.publishers) - len(self.record.received)
        return {key: number for publisher in self.publishers for key, number in publisher.sent.items()}

    def drain(self) -> dict[str, int]:
        """Publish no more, and run until all has come through; return the last confirmed number of each key."""
        for publisher in self.publishers:
            publisher.publishing = False
        run_until(
            self.clients, lambda: all(each.is_idle for each in self.publishers), within_s=DRAIN_S, what="confirmations"
        )
        self.consumer.hold_count = 0
        self.consumer.settle_down_to(0)
        confirmed = {key: number for publisher in self.publishers for key, number in publisher.confirmed.items()}
        run_until(self.clients, lambda: self.record.has_all(confirmed), within_s=DRAIN_S, what="all confirmed messages")
        wait_until(lambda: not self.first.held_count(OUT), within_s=DRAIN_S, what="confirmations of the foreign broker")
        return confirmed
