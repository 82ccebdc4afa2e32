"""Faults of links that tests plant into a copy of the sources, to check that runs of three brokers find them."""

from simulation.planted import Edit, Planted

FAULTS = (
    Planted(
        "a link queue is settled as its messages are sent",
        (
            Edit(
                "protocols/network/link_queue.py",
                "first, body, is_repeated))\n",
                'first, body, is_repeated))\n        self._settle(first, end, ACCEPTED, "")\n',
            ),
        ),
        seed=1,
    ),
    Planted(
        "messages of a neighbor are answered before they are stored",
        (
            Edit(
                "protocols/network/arrivals.py",
                "            self._storing[token] = (sequences, first, end)\n",
                "            self._storing[token] = (sequences, first, end)\n"
                "            self._answers.add(first, end)\n",
            ),
        ),
        seed=2,
    ),
    Planted(
        "a start forgets what was stored of a neighbor",
        (
            Edit(
                "protocols/network/kept.py",
                "                of(neighbor).sequences_of(lineage).restore(place, value)\n",
                "                of(neighbor).sequences_of(lineage)\n",
            ),
        ),
        seed=3,
    ),
)
