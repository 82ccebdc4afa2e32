"""A broker at two sites: a planned switch loses nothing, and after an unplanned one nothing is merged silently."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson
import pytest

from support.http.plain import HTTP
from support.load.delivery_record import DeliveryRecord
from support.load.mqtt_clients import WireConsumer, WirePublisher, hung_up_at_the_end, run_until
from support.processes.sites import Site, TwoSites

WITHIN_S = 60
COUNT = 50

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.timeout(600)]


class Load:
    """One publisher and one consumer of a queue, which go to whichever site serves."""

    def __init__(self) -> None:
        self.record = DeliveryRecord("the queue")
        self.publisher = WirePublisher("p", topic="load", keys=["a", "b", "c", "d"], qos=1, window=10)
        self.consumer = WireConsumer("c", filter_text="$queue/load", qos=1, record=self.record.note)

    def publishes(self, site: Site, count: int) -> None:
        wanted = self.publisher.confirmed_count + count
        publisher = self.publisher
        publisher.hang_up()
        publisher.connect(site.replica.ports["mqtt"])
        publisher.publishing = True
        run_until([publisher], lambda: publisher.confirmed_count >= wanted, within_s=WITHIN_S, what="confirmations")
        publisher.publishing = False
        run_until([publisher], lambda: publisher.is_idle, within_s=WITHIN_S, what="the last confirmations")

    def gets_all(self, site: Site) -> None:
        consumer = self.consumer
        consumer.hang_up()
        consumer.connect(site.replica.ports["mqtt"])
        confirmed = self.publisher.confirmed
        run_until([consumer], lambda: self.record.has_all(confirmed), within_s=WITHIN_S, what="all messages")
        self.record.check_nothing_is_lost(confirmed)
        consumer.hang_up()

    def gets(self, site: Site, count: int) -> None:
        """Receive and settle so many messages, which are all that there are."""
        consumer = self.consumer
        consumer.hang_up()
        consumer.connect(site.replica.ports["mqtt"])
        wanted = consumer.received_count + count
        run_until([consumer], lambda: consumer.received_count >= wanted, within_s=WITHIN_S, what="all messages")
        run_until([consumer], lambda: site.replica.held_count("load") == 0, within_s=WITHIN_S, what="settlements")
        consumer.hang_up()


@contextmanager
def loaded() -> Iterator[Load]:
    load = Load()
    with hung_up_at_the_end([load.publisher, load.consumer]):
        yield load


def rescale(site: Site, queue: str, count: int) -> None:
    url = f"{site.replica.admin_url}/queues/{queue}"
    HTTP.patch(url, json={"partition_count": count}, timeout=WITHIN_S).raise_for_status()


def incarnation(site: Site) -> str:
    url = f"{site.replica.admin_url}/spool"
    return str(HTTP.get(url).json()["incarnation"])


def test_a_planned_switch_loses_nothing_in_either_direction(tmp_path: Path) -> None:
    with TwoSites(tmp_path) as sites, loaded() as load:
        paris, london = sites.paris, sites.london
        paris.replica.create_queue("load", access_type="non-exclusive", subscriptions=["load/>"], partition_count=2)
        before = incarnation(paris)
        load.publishes(paris, COUNT)
        london.has_all()
        assert london.promote().status_code == 409  # paris has not given the broker up
        for old, new in ((paris, london), (london, paris)):
            old.demote()
            new.has(ends_with_handover=True)
            new.is_promoted()
            new.serves()
            assert incarnation(new) == before
            assert new.replica.held_count("load") == load.publisher.confirmed_count
            load.publishes(new, COUNT)
            old.has_all()
        load.gets_all(paris)


def test_after_a_promotion_with_a_loss_the_old_site_comes_back_as_a_standby_and_merges_nothing(tmp_path: Path) -> None:
    with TwoSites(tmp_path) as sites, loaded() as load:
        paris, london = sites.paris, sites.london
        paris.replica.create_queue("load", access_type="non-exclusive", subscriptions=["load/>"], partition_count=1)
        before = incarnation(paris)
        load.publishes(paris, COUNT)
        london.has_all()

        # London is lost while partitions change under load, so nobody chose what of it London has.
        rescale(paris, "load", 3)
        load.publishes(paris, COUNT)
        london.replica.kill9()
        load.publishes(paris, COUNT)
        paris.replica.kill9()
        for server in paris.servers.servers:
            server.kill()
        london.replica.start()
        assert london.promote().status_code == 409
        assert london.promote(accept_loss=True).status_code == 202
        london.serves()
        assert incarnation(london) != before

        # What London has is what Paris had at some moment: of each key the first messages, each once, in order.
        common = london.replica.held_count("load")
        assert common >= COUNT
        load.gets(london, common)
        load.record.check_order()
        load.record.check_nothing_is_repeated()

        for server in paris.servers.servers:
            server.start()
        paris.replica.start()
        paris.has_all()
        assert not paris.replica.is_owner()
        (listed,) = paris.status()["surplus"]
        lines = [orjson.loads(line) for line in Path(listed).read_bytes().splitlines()]
        published = [message for line in lines for message in line["published"]]
        assert len(published) == load.publisher.confirmed_count - common
        assert {queue["name"] for message in published for queue in message["queues"]} == {"load"}

        load.publishes(london, COUNT)
        held = london.replica.held_count("load")
        london.demote()
        paris.has(ends_with_handover=True)
        paris.is_promoted()
        paris.serves()
        assert paris.replica.held_count("load") == held
        assert paris.replica.queue("load")["partition_operational_count"] == 3
        london.has_all()
