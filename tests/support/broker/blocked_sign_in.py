"""A login whose password check succeeds when the test releases it."""

import asyncio
from dataclasses import dataclass, field

import pytest

from sluicegate.protocols.security.authentication import Principal
from support.broker.running_broker import RunningBroker


@dataclass
class BlockedSignIn:
    """The check of any password that is shown from now on."""

    begun: asyncio.Event = field(default_factory=asyncio.Event)
    may_end: asyncio.Event = field(default_factory=asyncio.Event)

    async def password(self, user_name: str, password: bytes, host: str) -> Principal:
        """Find a password right, once it may end."""
        self.begun.set()
        await self.may_end.wait()
        return Principal(user_name)


def block_sign_ins(broker: RunningBroker, monkeypatch: pytest.MonkeyPatch) -> BlockedSignIn:
    """Have passwords of the message VPN `default` checked so."""
    held = BlockedSignIn()
    monkeypatch.setattr(broker.node.default.accounts.authenticator, "password", held.password)
    return held
