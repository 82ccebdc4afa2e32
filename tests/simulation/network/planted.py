"""Faults of links that tests plant into a copy of the sources, to check that runs of three brokers find them."""

from simulation.planted import Edit, Planted

FAULTS = (
    Planted(
        "a link queue is settled as its messages are sent",
        (
            Edit(
                "protocols/network/guaranteed/link_queue.py",
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
                "protocols/network/guaranteed/arrivals.py",
                "            self._storing[token] = (sequences, first, end)\n",
                "            self._storing[token] = (sequences, first, end)\n"
                "            self._answers.add(first, end)\n",
            ),
        ),
        seed=13,
    ),
    Planted(
        "a start forgets what was stored of a neighbor",
        (
            Edit(
                "protocols/network/guaranteed/kept.py",
                "                of(neighbor).sequences_of(lineage).restore(place, value)\n",
                "                of(neighbor).sequences_of(lineage)\n",
            ),
        ),
        seed=3,
    ),
    Planted(
        "what a crash may take back crosses a link before its commit",
        (
            Edit(
                "messaging/partitions/ledger.py",
                "(self.rules.passes_on and self._awaits_its_commit(publication))",
                "(self.rules.passes_on and False)",
            ),
        ),
        seed=2,
    ),
    Planted(
        "what comes over a link is passed on to other neighbors",
        (
            Edit(
                "actors/publishing/link_publisher.py",
                "        taken = self._admitted(queues, batch, is_counted=neighbor in self._siblings)\n",
                "        for at in range(batch.count):\n"
                "            links = self._space.route(batch.topic_of(at)).links\n"
                "            for each in links.stored if links is not None else ():\n"
                "                queues[self._space.link_queues[each]] = None\n"
                "        taken = self._admitted(queues, batch, is_counted=neighbor in self._siblings)\n",
            ),
        ),
        seed=1,
    ),
    Planted(
        "a message forgets the time that it spent at its publisher's broker",
        (
            Edit(
                "messaging/network/times.py",
                "    shift = wall_ms - sent_ms\n",
                "    shift = wall_ms - batch.received_ms\n",
            ),
        ),
        seed=2,
    ),
    Planted(
        "times in messages are taken for those of this broker's clock",
        (
            Edit(
                "messaging/network/times.py",
                "    shift = wall_ms - sent_ms\n",
                "    shift = 0\n",
            ),
        ),
        seed=1,
    ),
    Planted(
        "what a neighbor wants is in force before it is stored",
        (
            Edit(
                "protocols/network/interests.py",
                "        rows = self._kept.interest_rows(changes[0][0])\n",
                "        rows = self._kept.interest_rows(changes[0][0])[:0]\n",
            ),
        ),
        seed=1,
    ),
    Planted(
        "nothing is stored for a neighbor until its link begins",
        (
            Edit(
                "protocols/network/link/vpn_link.py",
                "        if kept.queue is None or neighbor in self._absent or neighbor in self._linked:\n",
                "        if kept.queue is None or neighbor not in self._absent or neighbor in self._linked:\n",
            ),
            Edit(
                "protocols/network/link/vpn_link.py",
                "        vpn.space.change_neighbor(self, Change(list(self.kept.interests), []))\n",
                "",
            ),
        ),
        seed=1,
    ),
    Planted(
        "members of a group at the publisher's broker are passed over",
        (
            Edit(
                "messaging/routing/receivers.py",
                "    return [group for group in links.groups if group.key not in here]\n",
                "    return list(links.groups)\n",
            ),
        ),
        seed=1,
    ),
    Planted(
        "interests that end are not told",
        (
            Edit(
                "messaging/network/exchange.py",
                "                    self._removed[interest] = None\n",
                "                    pass\n",
            ),
        ),
        seed=1,
    ),
    Planted(
        "a broker that was restored goes on in its old lineage",
        (
            Edit(
                "messaging/network/sequences.py",
                "        if self._of and self._of[-1][0] == lineage:\n",
                "        if self._of:\n",
            ),
        ),
        seed=3,
    ),
    Planted(
        "Deliver-To-One messages go to a neighbor as well",
        (
            Edit(
                "actors/publishing/publisher.py",
                "        elsewhere = route.groups_elsewhere(",
                "        unclaimed = rows if unclaimed is not None else None\n"
                "        elsewhere = route.groups_elsewhere(",
            ),
        ),
        seed=1,
    ),
    Planted(
        "a deletion of a retained message is not remembered for neighbors",
        (
            Edit(
                "actors/publishing/retain.py",
                "            retained.bury(topic, version)\n",
                "            retained.remove(topic)\n",
            ),
        ),
        seed=9,
    ),
    Planted(
        "a broker's retained messages may be older than those that it has seen",
        (
            Edit(
                "messaging/network/retained/exchange.py",
                "        self._clock.saw(entry.version)\n",
                "",
            ),
        ),
        seed=15,
    ),
    Planted(
        "retained messages that the store refused are not written again",
        (
            Edit(
                "messaging/network/retained/exchange.py",
                "        self._refused[topic] = None\n",
                "        pass\n",
            ),
        ),
        seed=8,
    ),
    Planted(
        "the end of a link leaves messages with consumers that are gone",
        (
            Edit(
                "protocols/network/queues/home/bindings.py",
                "            self._end(flow, UnbindFlow(flow.flow_id))\n",
                "            self._forget(flow)\n",
            ),
        ),
        seed=1,
    ),
    Planted(
        "messages cross a link to consumers without their marks",
        (
            Edit(
                "protocols/network/queues/home/flows.py",
                "            flags = (REDELIVERED if delivery.redelivered else 0) | (\n",
                "            flags = 0 | (\n",
            ),
        ),
        seed=7,
    ),
    Planted(
        "a loan that brings nothing is kept from those that wait",
        (
            Edit(
                "protocols/network/queues/remote/queue.py",
                "            if is_idle:\n",
                "            if is_idle and borrower.lent_count == 0:\n",
            ),
        ),
        seed=1,
    ),
    Planted(
        "what consumer queues of virtual topics want is not told",
        (
            Edit(
                "messaging/routing/virtual/resolver.py",
                "import_for(target, [each for topics in shared for each in topics.exported_filters()])\n",
                "import_for(target, [])\n",
            ),
        ),
        seed=1,
    ),
    Planted(
        "queues of local virtual topics get messages of neighbors",
        (
            Edit(
                "messaging/routing/virtual/resolver.py",
                "            if binding.definition.local:\n                continue\n            branch",
                "            branch",
            ),
        ),
        seed=1,
    ),
    Planted(
        "what a queue wants that a link keeps back is told",
        (
            Edit(
                "messaging/routing/local_interest.py",
                "        if queue and queue in self.exclude_queues:\n            return False\n",
                "",
            ),
        ),
        seed=1,
    ),
    Planted(
        "composites forward what comes from neighbors",
        (
            Edit(
                "messaging/routing/virtual/resolver.py",
                "        root = self._leaf(choices, topic, matches)\n        for binding",
                "        root = self._leaf(choices, topic, matches)\n"
                "        for composite in self._composites_on(topic):\n"
                "            root.forks.append(self._composite(choices, composite, 0))\n"
                "        for binding",
            ),
        ),
        seed=1,
    ),
    Planted(
        "a client that connects at another broker keeps the connection that it had",
        (
            Edit(
                "protocols/mqtt/session/directory.py",
                "                run(self._runtime, self._leave_to(seen, message.broker))\n",
                "                pass\n",
            ),
        ),
        seed=2,
    ),
    Planted(
        "what clients have connected during a cut is not told",
        (
            Edit(
                "protocols/network/exchange/clients.py",
                "_written(seen) for seen in self._clients.since(self._since)}\n",
                "_written(seen) for seen in self._clients.since(self._since)[:0]}\n",
            ),
        ),
        seed=11,
    ),
    Planted(
        "a session ends when its client connects at another broker",
        (
            Edit(
                "protocols/mqtt/session/directory.py",
                "                await self._take_over(session, is_clean=seen.is_clean)\n",
                "                await self._take_over(session, is_clean=seen.is_clean)\n"
                "                self._end(session)\n",
            ),
        ),
        seed=1,
    ),
    Planted(
        "a transaction is committed that settles messages of another broker's queue",
        (
            Edit(
                "actors/transactions/commit.py",
                "                reason = str(elsewhere)\n                continue\n",
                "                continue\n",
            ),
        ),
        seed=16,
    ),
    Planted(
        "what a transaction publishes crosses a link before its commit",
        (
            Edit(
                "messaging/partitions/ledger.py",
                "        return comes_with_more or publication.is_transaction\n",
                "        return comes_with_more\n",
            ),
        ),
        seed=21,
    ),
    Planted(
        "replies go to any neighbor, whoever made up the name of their queue",
        (
            Edit(
                "messaging/routing/routes.py",
                "                if output.neighbor == broker:\n",
                "                if output.neighbor:\n",
            ),
        ),
        seed=1,
    ),
)
