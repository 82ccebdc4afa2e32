"""`sluicegate actors` and `top` on a terminal."""

from collections.abc import Iterator

import pytest

from support.processes.gateway import PYTHON, GatewayProcess, gateway
from support.processes.terminal import TerminalCommand


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with gateway(tmp_path_factory.mktemp("watched")) as process:
        process.create_queue("orders", subscriptions=["orders/>"])
        yield process


def view(node: GatewayProcess, command: str, *, lines: int) -> TerminalCommand:
    return TerminalCommand([*PYTHON, command, "--interval", "0.2", "--url", node.admin_url], lines=lines)


def test_actors_are_drawn_until_an_interrupt(node: GatewayProcess) -> None:
    with view(node, "actors", lines=100) as actors:
        actors.draws("orders")
        actors.draws("orders")
        actors.interrupt()
        assert actors.ends() == 0


def test_a_tree_that_is_higher_than_the_terminal_says_so_and_scrolls(node: GatewayProcess) -> None:
    with view(node, "actors", lines=8) as actors:
        actors.draws("lines 1 to 7 of ")
        actors.press("j")
        actors.draws("lines 2 to 8 of ")
        actors.press(" ")
        actors.draws("lines 9 to 15 of ")
        actors.press("kk\x1b[Ax")
        actors.draws("lines 6 to 12 of ")
        actors.press("\x1b[5~")  # page up
        actors.draws("lines 1 to 7 of ")
        actors.press("q")
        assert actors.ends() == 0


def test_top_draws_rates_again_and_again(node: GatewayProcess) -> None:
    with view(node, "top", lines=60) as top:
        top.draws("1 of 1 queues")
        assert node.command("pub", "--topic", "orders/eu", "--message", "hello").returncode == 0
        top.draws("orders")
        top.draws("spool 1 message,")
        top.press("q")
        assert top.ends() == 0
