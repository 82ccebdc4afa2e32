"""Faults of moves that tests plant into a copy of the sources, to check that runs of moves find them."""

from simulation.planted import Edit, Planted

FAULTS = (
    Planted(
        "holds end before the new home is known",
        (
            Edit(
                "protocols/network/moves/holds.py",
                "        while not (has_told(hold.new) and self._knows(hold)):\n",
                "        while hold.filters is None:\n",
            ),
        ),
        seed=1,
    ),
    Planted(
        "dead messages move in a commit, and leave their queue in another",
        (
            Edit(
                "actors/partitions/jobs/move.py",
                "publication.settlements = [(self.context.partition_id, first, end) for first, end in ranges]\n",
                "publication.settlements = []\n",
            ),
        ),
        seed=1,
    ),
    Planted(
        "dead messages do not wait for the new home of their queue",
        (
            Edit(
                "messaging/routing/queue_ways.py",
                "        if space.held is not None and space.held.covers(queue_topic(name)):\n",
                "        if space.held is not None and space.held.covers(queue_topic(name)) and not name:\n",
            ),
        ),
        seed=5,
    ),
    Planted(
        "a start deletes dead messages before it knows of neighbors",
        (
            Edit(
                "messaging/routing/queue_ways.py",
                "        if self.awaits_links:\n",
                "        if self.awaits_links and not name:\n",
            ),
        ),
        seed=3,
    ),
    Planted(
        "a start forgets that a queue was being moved",
        (
            Edit(
                "storage/catalog/queues.py",
                '    move = _move(row["move"]) if "move" in row else None\n',
                "    move = None\n",
            ),
        ),
        seed=3,
    ),
    Planted(
        "a broker that holds does not wait for what it has sent before",
        (
            Edit(
                "protocols/network/moves/holds.py",
                "                if link is not None and link.queue is not None:\n",
                "                if link is not None and link.queue is not None and not hold.queue:\n",
            ),
        ),
        seed=1,
    ),
    Planted(
        "a start forgets where a queue has gone, for it has no links yet",
        (
            Edit(
                "protocols/network/moves/mover.py",
                "    left = dict.fromkeys([*links, *kept])\n",
                "    left = dict.fromkeys(links)\n",
            ),
        ),
        seed=1,
    ),
    Planted(
        "a start forgets that topics are held",
        (
            Edit(
                "protocols/network/guaranteed/kept.py",
                "                of(neighbor).holds[queue] = hold_in(queue, value)\n",
                "                hold_in(queue, value)\n",
            ),
        ),
        seed=2,
    ),
)
