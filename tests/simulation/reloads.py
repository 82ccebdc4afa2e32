"""Steps that concern the configuration, the web servers of delivery points, and browsers."""

from collections.abc import Callable
from typing import Final

from simulation.clients.client import OFFLINE
from simulation.judge.targets import PARTITIONED
from simulation.machine.web_servers import MOODS
from simulation.scenario import BROWSERS, NAMES
from simulation.steps import Step
from simulation.world import World


def _reload(world: World, step: Step) -> None:
    """Change the file, and have the node read it."""
    world.finish_admin()
    world.configuration.change(world.salted)
    world.reload()


def _web(world: World, step: Step) -> None:
    """Have a web server be willing or not, break its connections, stop reading, or say what nobody has asked."""
    servers = list(world.web.servers.values())
    server = servers[step.who % len(servers)]
    deed = step.what % 8
    if deed == 0:
        server.breaks_all()
    elif deed < 3:
        server.stalls(deed == 1)
    elif deed == 3:
        for visit in list(server.visits):
            server.says_something(visit)
    else:
        server.mood = MOODS[step.amount % len(MOODS)]


def _browse(world: World, step: Step) -> None:
    """Have a browser come, leave, begin a walk or give one up."""
    browser = world.browsers[BROWSERS[step.who % len(BROWSERS)]]
    deed = step.what % 8
    if browser.state == OFFLINE:
        browser.connect()
    elif deed == 0:
        (browser.cut, browser.vanish, browser.close)[step.amount % 3]()
    elif deed == 1:
        browser.give_up()
    else:
        queue = NAMES[step.amount % len(NAMES)]
        browser.walk(queue, is_partitioned=world.scenario.queues[queue].kind == PARTITIONED)


RELOADING: Final[dict[str, Callable[[World, Step], None]]] = {
    "reload": _reload,
    "web": _web,
    "browse": _browse,
}
