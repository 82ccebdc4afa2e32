"""kill -9 in the middle of creations and deletions of message VPNs: each is there whole, or gone without a trace."""

import random
import threading
import time
from pathlib import Path

import httpx
import pytest

from sluicegate.messaging.message.vpn import row_prefix
from sluicegate.storage.backup.reader import SpoolReader
from sluicegate.storage.store.store import SpoolStore
from support.http.plain import HTTP
from support.processes.gateway import GatewayProcess
from support.thorough import amount

ROUNDS = amount(3, thorough=6)
QUEUES = 40
MESSAGES = 5
MAP_BYTES = 1 << 40

pytestmark = [pytest.mark.crash, pytest.mark.slow]


def vpns_of(gateway: GatewayProcess) -> dict[str, dict[str, object]]:
    answer = HTTP.get(f"{gateway.admin_url}/message-vpns")
    return {each["name"]: each for each in answer.json()["message_vpns"]}


def fill(gateway: GatewayProcess, vpn: str) -> None:
    """Create queues with messages."""
    for number in range(QUEUES):
        gateway.create_queue(f"q{number}", vpn=vpn, subscriptions=["t"])
    for _ in range(MESSAGES):
        headers = {"Sluicegate-Message-VPN": vpn}
        assert HTTP.post(f"{gateway.http_url}/TOPIC/t", content=b"x" * 1000, headers=headers).status_code == 200


def in_background(gateway: GatewayProcess, method: str, path: str, body: object) -> threading.Thread:
    """Send a request whose answer may never come."""

    def ask() -> None:
        try:
            httpx.request(method, f"{gateway.admin_url}{path}", json=body, timeout=30)
        except httpx.HTTPError:
            return

    thread = threading.Thread(target=ask)
    thread.start()
    return thread


def test_a_message_vpn_is_whole_or_gone_after_a_kill(tmp_path: Path) -> None:
    """Method: kill at a random moment of each change, start again, and look at the admin port and into the store."""
    rng = random.Random(7)
    with GatewayProcess(tmp_path) as gateway:
        for number in range(ROUNDS):
            name = f"v{number}"
            asked = in_background(gateway, "POST", "/message-vpns", {"name": name, "max_connection_count": 7})
            time.sleep(rng.random() * 0.02)
            gateway.kill9()
            asked.join()
            gateway.start()
            if name not in vpns_of(gateway):
                assert HTTP.post(f"{gateway.admin_url}/message-vpns", json={"name": name}).status_code == 201
            created = vpns_of(gateway)[name]
            assert (created["origin"], created["up"]) == ("operator", True)
            fill(gateway, name)
            asked = in_background(gateway, "DELETE", f"/message-vpns/{name}?force=true", None)
            time.sleep(rng.random() * 0.15)
            gateway.kill9()
            asked.join()
            gateway.start()
            left = vpns_of(gateway).get(name)
            if left is not None:  # the kill came before the deletion was decided
                assert left["endpoint_count"] == QUEUES
                assert left["spooled_msg_count"] == MESSAGES * QUEUES
                assert HTTP.delete(f"{gateway.admin_url}/message-vpns/{name}?force=true").status_code == 204
            assert name not in vpns_of(gateway)
    with SpoolReader.open_folder(gateway.data) as reader:
        assert list(reader.vpns) == ["default"]
        assert reader.vpns["default"].queues == {}
        assert not any(page.partition_id for page in reader.pages)
    store = SpoolStore.open(gateway.data, map_bytes_max=MAP_BYTES)
    try:
        assert not any(keys for number in range(ROUNDS) for keys in store.row_keys(row_prefix(f"v{number}")).values())
    finally:
        store.close()
