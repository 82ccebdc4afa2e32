"""Whether a name is that of an account does not show in what its wrong password costs, over any protocol.

What is counted is work: how long an answer takes follows from it, and is nothing that a busy machine could be held to.
"""

from collections import Counter
from pathlib import Path
from typing import Final

import pytest
from argon2 import PasswordHasher
from argon2.exceptions import VerifyMismatchError

from sluicegate.gateway.operations.node import NodeView
from sluicegate.protocols.security import scram
from sluicegate.protocols.security.account_secrets import kind_of
from support.broker.protocol_clients import OK, Amqp, FlowProtocol, Http, Mqtt, SpeakingClient
from support.broker.running_broker import RunningBroker

CLIENTS: Final = {"mqtt": Mqtt, "amqp": Amqp, "flow": FlowProtocol, "http": Http}
RIGHT: Final = "engine"
HASHER: Final = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
HASH: Final = HASHER.hash(RIGHT)
STORED: Final = (
    "SCRAM-SHA-256$4096:AAAAAAAAAAAAAAAAAAAAAA==$G16v2rqLOZn6q0ueHaotywyiQ2K8kIJ+ndMrQeL9eJ8="
    ":YRzNkEfpX8Wjps4jESaOA1XoUmYwLvJp4pJ8oNKEyB0="
)
VERIFY: Final = PasswordHasher.verify
MATCHES: Final = scram.password_matches
# What a name may be, to whoever does not know: an account of each kind, one of another message VPN, nobody's.
NAMES: Final = ("filed", "hashed", "stored", "shut-down", "made", "elsewhere", "nobody", "ada@corp", "eve@corp")


class Work:
    """What passwords were held against, by kind."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.checked: Counter[str] = Counter()
        monkeypatch.setattr(PasswordHasher, "verify", self._verify)
        monkeypatch.setattr(scram, "password_matches", self._matches)

    def _verify(self, secret: str, password: bytes) -> bool:
        self.checked[kind_of(secret)] += 1
        if kind_of(secret) != kind_of(HASH):  # hashes that are made now: dear, and none is right in these tests
            raise VerifyMismatchError
        return VERIFY(HASHER, secret, password)

    def _matches(self, secret: str, password: bytes) -> bool:
        self.checked[kind_of(secret)] += 1
        return MATCHES(secret, password)

    def taken(self) -> Counter[str]:
        """Return what was checked since it was asked last."""
        checked, self.checked = self.checked, Counter()
        return checked


def settings_of(folder: Path) -> tuple[str, ...]:
    (folder / "plain").write_text(RIGHT)
    (folder / "stored").write_text(STORED)
    users = [
        f"{{name: filed, password_file: {folder}/plain}}",
        f"{{name: hashed, password: '{HASH}'}}",
        f"{{name: stored, password_file: {folder}/stored}}",
        f"{{name: shut-down, password_file: {folder}/plain, enabled: false}}",
        f"{{name: ada@corp, password_file: {folder}/plain}}",
    ]
    return (
        "authentication.allow_anonymous=false",
        f"authentication.users=[{', '.join(users)}]",
        "vpns.sales.authentication.allow_anonymous=false",
        f"vpns.sales.authentication.users=[{{name: elsewhere, password_file: {folder}/plain}}]",
    )


@pytest.mark.parametrize("protocol", CLIENTS)
async def test_a_wrong_password_costs_the_same_and_hears_the_same_whatever_the_name_is_of(
    protocol: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OWASP, Authentication Cheat Sheet: response times are told apart over a network, by a median of a few."""
    work = Work(monkeypatch)  # before the node is made, which keeps what it checks with
    async with RunningBroker(tmp_path / "data", settings_of(tmp_path)) as broker:
        await NodeView(broker.node).create_user({"name": "made", "password": RIGHT})
        heard = {}
        for name in NAMES:
            client: SpeakingClient = CLIENTS[protocol](broker, name)
            answer = await client.connect(name, "guess")
            await client.leave()
            heard[name] = (answer, work.taken())
    expected = heard["nobody"]
    assert expected[0] != OK
    assert len(expected[1]) == 3  # the hash and the key of the configuration, and the hash that was made now
    assert heard == dict.fromkeys(NAMES, expected)


@pytest.mark.parametrize("protocol", CLIENTS)
async def test_a_right_password_is_checked_once(protocol: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand devices that come back after the network was away do not wait for a thousand checks."""
    work = Work(monkeypatch)
    async with RunningBroker(tmp_path / "data", settings_of(tmp_path)) as broker:
        for _ in range(3):
            for name in ("filed", "hashed", "stored"):
                client: SpeakingClient = CLIENTS[protocol](broker, name)
                assert await client.connect(name, RIGHT) == OK
                await client.leave()
    assert work.taken() == Counter([kind_of(HASH), kind_of(STORED)])
