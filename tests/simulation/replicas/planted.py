"""Faults of replicas that tests plant into a copy of the sources, to check that runs of replicas find them."""

from simulation.planted import Edit, Planted

FAULTS = (
    Planted(
        "a refused append is taken for a stored one",
        (
            Edit(
                "storage/replication/jetstream.py",
                "return await self._requests.write(self._subject, append.data, {EXPECTED: str(append.expected)})\n",
                "await self._requests.write(self._subject, append.data, {EXPECTED: str(append.expected)})\n"
                "        return append.expected + 1\n",
            ),
        ),
        seed=1,
    ),
    Planted(
        "a look that finds nothing is taken for a refusal",
        (
            Edit(
                "storage/replication/log.py",
                "                    is_stored = self.replica.look(data)\n",
                "                    is_stored = self.replica.look(data)\n"
                "                    if data is None:\n"
                "                        self.replica._out.clear()\n"
                '                        raise StreamFull("nothing is there")\n',
            ),
        ),
        seed=1,
    ),
    Planted(
        "an owner applies a commit before a majority has it",
        (
            Edit(
                "storage/store/owner.py",
                "        if not self._is_in_stream:\n            self._append(job.number, data)\n",
                "        self._store.take([(job.number, data)])\n        self._append(job.number, data)\n",
            ),
            Edit(
                "storage/store/owner.py", "            self._store.take([(job.number, data)])\n", "            pass\n"
            ),
        ),
        seed=1,
    ),
    Planted(
        "an owner of the past confirms",
        (
            Edit(
                "storage/store/owner.py",
                "        except OwnershipLost:\n            raise\n",
                "        except OwnershipLost:\n            pass\n",
            ),
        ),
        seed=4,
    ),
    Planted(
        "the key is enough to serve",
        (
            Edit(
                "gateway/cluster/log/spool.py",
                "        await self._thread.result_of(self._log.take_over(epoch))\n",
                "        self.replica.take_key(epoch)\n"
                "        self.replica.owner_epoch, self.replica.role = epoch, Role.OWNER\n"
                "        assert self.replica._place is not None\n"
                "        self.replica._place = self.replica._place._replace(epoch=epoch, position=0)\n",
            ),
        ),
        seed=1,
    ),
    Planted(
        "the log is trimmed to snapshots that nobody has verified",
        (
            Edit(
                "storage/replication/trimming/plan.py",
                "    verified = _newest_first(snapshots)\n    if len(verified) < KEPT:\n",
                "    verified = sorted(snapshots, key=lambda each: each.position, reverse=True)\n"
                "    if len(verified) < KEPT:\n",
            ),
        ),
        seed=2,
    ),
    Planted(
        "the log is trimmed to the newest snapshot",
        (Edit("storage/replication/trimming/plan.py", "base = newest[-1].position", "base = newest[0].position"),),
        seed=1,
    ),
    Planted(
        "a snapshot has a position behind what it has",
        (
            Edit(
                "storage/backup/snapshots.py",
                "SnapshotName(incarnation, epoch, position, replica, taken_ms)",
                "SnapshotName(incarnation, epoch, position + 9, replica, taken_ms)",
            ),
        ),
        seed=1,
    ),
    Planted(
        "the lease is one of the time of day",
        (Edit("storage/replication/ownership/clock.py", "time.clock_gettime(_CLOCK)", "time.time()"),),
        seed=14,
    ),
    Planted(
        "a reader takes a copy that comes late",
        (
            Edit(
                "storage/replication/messages.py",
                "        if message.chain != self.chain:\n            return False\n",
                "",
            ),
            Edit(
                "storage/replication/messages.py",
                "        return message.epoch == self.epoch and message.position == self.position\n",
                "        return message.epoch == self.epoch\n",
            ),
        ),
        seed=4,
    ),
    Planted(
        "the last message is waited for that went to a lost connection",
        (Edit("storage/replication/stream_reader.py", "if not found and self._has_waited:", "if False:"),),
        seed=53,
    ),
    Planted(
        "turns go on after the lease",
        (
            Edit(
                "gateway/cluster/replica/turns.py",
                "        if serves():\n            work()\n        else:\n            lost()\n",
                "        work()\n",
            ),
        ),
        seed=1,
    ),
)
