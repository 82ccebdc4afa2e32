"""Clients in TLS that are held back as they say their last: all of it is heard, as it is without TLS.

What the transport does is in `tests/unit/protocols/transport/test_tls.py`.
"""

import ssl
from pathlib import Path

import pytest

import support.mqtt.packets as mqtt
from support.broker.running_broker import RunningBroker
from support.mqtt.raw_client import RawClient
from support.network.certificates import make_certificates

LAST = [b"%04d" % number for number in range(200)]


@pytest.mark.parametrize("ends", ["in TLS", "by TCP"])
async def test_a_goodbye_behind_a_request_that_takes_its_time_is_heard(tmp_path: Path, ends: str) -> None:
    """The SUBSCRIBE waits for the disk, and what comes behind it for the SUBSCRIBE [MQTT 3.14.4-3]."""
    certificates = make_certificates(tmp_path)
    context = ssl.create_default_context(cafile=str(certificates.authority))
    async with RunningBroker(tmp_path / "data", certificates.in_tls("listeners.mqtt_tls")) as broker:
        watching = await broker.connect()
        await watching.subscribe("last", "will")
        port = broker.node.mqtt.listeners["mqtt_tls"].port
        for number in range(5):
            client = await RawClient.open(port, 4, tls=context)
            will = mqtt.WillPart("will", b"it said no goodbye")
            await client.connect(f"client {number}", clean_start=False, will=will)
            client.send(
                mqtt.subscribe(("orders", 1), packet_id=1),
                *[mqtt.publish("last", payload) for payload in LAST],
                mqtt.disconnect(),
            )
            if ends == "by TCP":
                await client.drained()
                client.sends_no_more()
            else:
                await client.vanish()
            assert await watching.payloads(len(LAST)) == LAST
            await client.vanish()
        await watching.is_quiet()
