"""Operators are told of a move that waits for long: on virtual time, with a broker that is away."""

from simulation.network.moves.clients import QUEUE
from simulation.network.moves.run import SECOND_US, Travel
from simulation.network.network import Broker
from sluicegate.messaging.observability.events import VPN_QUEUE_MOVE_WAITS

SEED = 3  # the queue is at broker a


def told_of(world: Broker) -> list[str]:
    """The events of moves that wait."""
    record = world.node.services.runtime.events.record
    return [each.description for _, each in record.recent(0, 1_000) if each.kind is VPN_QUEUE_MOVE_WAITS]


def test_a_new_home_that_never_says_whether_it_is_the_home_is_an_event() -> None:
    travel = Travel(SEED)
    network = travel.network
    try:
        [home] = travel.homes
        to = next(each for each in network.worlds if each != home)
        world = network.worlds[home]
        moves, becoming = travel.moves_at(world), travel.moves_at(network.worlds[to])._becoming
        network.advance(10 * SECOND_US)
        becoming[QUEUE] = None  # as if its store did not answer
        world.ask(moves.begin(QUEUE, to))
        network.advance(75 * SECOND_US)
        [told] = told_of(world)
        assert told.startswith(f"Queue {QUEUE} waits to be moved to broker {to}: broker {to!r} has not said")
        assert moves.long_waits_count == 1

        del becoming[QUEUE]
        network.advance(30 * SECOND_US)
        assert (travel.homes, told_of(world), moves.long_waits_count) == ([to], [told], 0)
    finally:
        network.close()


def test_a_move_that_waits_for_a_minute_is_an_event_once_until_it_goes_on() -> None:
    travel = Travel(SEED)
    network = travel.network
    try:
        [home] = travel.homes
        to, away = (each for each in network.worlds if each != home)
        world = network.worlds[home]
        moves = travel.moves_at(world)
        network.dies(away, 300 * SECOND_US)
        network.advance(10 * SECOND_US)
        world.ask(moves.begin(QUEUE, to))

        network.advance(50 * SECOND_US)
        assert (told_of(world), moves.long_waits_count) == ([], 0)
        network.advance(15 * SECOND_US)
        text = f"Queue {QUEUE} waits to be moved to broker {to}: every broker of the network has to take part: "
        [told] = told_of(world)
        assert told.startswith(text), told
        assert moves.long_waits_count == 1

        travel.publishers[home].connect()
        network.advance(SECOND_US)
        travel.publishers[home].publish(by_name=True, dies=False)  # it goes over, and the move still waits
        network.advance(120 * SECOND_US)
        assert (told_of(world), moves.long_waits_count) == ([told], 1)

        network.all_come_back()
        network.advance(30 * SECOND_US)
        assert (travel.homes, told_of(world), moves.long_waits_count) == ([to], [told], 0)
    finally:
        network.close()
