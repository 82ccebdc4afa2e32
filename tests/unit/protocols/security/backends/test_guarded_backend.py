"""Questions to a backend that wait for their turn."""

import asyncio

import pytest

from sluicegate.messaging.clients.rights import BackendUnavailable
from sluicegate.protocols.security.backends.guarded_backend import NOT_ASKED, Admission, Granted, GuardedBackend, Login
from sluicegate.protocols.security.login_queue import WAITING_OF_NETWORK_MAX
from support.cores.set_clock import SetClock


def login(number: int, host: str) -> Login:
    return Login(f"user-{number}", b"secret", "", host, "mqtt")


def test_those_of_one_network_leave_room_for_others() -> None:
    """Of IPv6 the first 64 bits are the network."""

    async def story() -> None:
        answers = asyncio.Event()

        async def ask(_: Login) -> Admission | None:
            await answers.wait()
            return Admission()

        guarded = GuardedBackend(
            ask,
            timeout_ms=60_000,
            concurrent_max=1,
            remembered_ms=0,
            clock=SetClock(),
            secret=b"key",
            on_failure=lambda _: None,
        )
        many = [
            asyncio.ensure_future(guarded.granted(login(each, f"2001:db8::{each:x}")))
            for each in range(WAITING_OF_NETWORK_MAX)
        ]
        await asyncio.sleep(0)
        await asyncio.sleep(0)  # a question is a task that a task has begun
        with pytest.raises(BackendUnavailable):
            await guarded.granted(login(9_999, "2001:db8::ffff"))
        assert guarded.counts == {NOT_ASKED: 1}
        other = asyncio.ensure_future(guarded.granted(login(1, "2001:db8:0:1::1")))
        answers.set()
        assert await asyncio.gather(other, *many) == [Granted(Admission(), 0)] * (1 + len(many))
        assert await guarded.granted(login(9_999, "2001:db8::ffff")) == Granted(Admission(), 0)

    asyncio.run(asyncio.wait_for(story(), 60))
