"""The examples of docs/connect/flow-client.md, run as programs of their own, in their order, against a node."""

import asyncio
import re
import sys
from pathlib import Path

import sluicegate
from support.broker.named_queues import create, shown
from support.broker.running_broker import RunningBroker
from support.mqtt.raw_client import DEADLINE_S

PAGE = Path(__file__).resolve().parents[4] / "docs" / "connect" / "flow-client.md"
EXAMPLE = re.compile(r"```python\n(import .*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)


async def output_of(program: str) -> str:
    """Run a program to its end."""
    started = await asyncio.create_subprocess_exec(
        sys.executable, "-c", f"import sys\nsys.path[:] = {sys.path!r}\n{program}",
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    async with asyncio.timeout(2 * DEADLINE_S):
        output, errors = await started.communicate()
    assert started.returncode == 0, errors.decode()
    return output.decode()


async def test_the_examples_do_what_stands_beside_them(broker: RunningBroker) -> None:
    """Each finds what those before it left."""
    await create(broker, "orders")
    examples = EXAMPLE.findall(PAGE.read_text())
    assert len(examples) == 5
    for program, said in examples:
        assert await output_of(program.replace("flow://localhost", f"flow://127.0.0.1:{broker.flow_port}")) == said
    assert (await shown(broker, "orders")).ready_count < 1000 - 20


async def test_the_browser_of_the_page_shows_what_it_selects(broker: RunningBroker) -> None:
    await create(broker, "orders")
    match = re.search(r'client\.browser\("orders", selector="(.*?)"\)', PAGE.read_text())
    assert match is not None
    async with sluicegate.Client(f"flow://127.0.0.1:{broker.flow_port}") as client:
        async with client.publisher() as publisher:
            for priority in range(10):
                await publisher.publish(sluicegate.Message(b"m", queue="orders", priority=priority))
        async with client.browser("orders", selector=match[1]) as browser:
            async with asyncio.timeout(DEADLINE_S):
                assert [(await browser.receive()).priority for _ in range(3)] == [7, 8, 9]
