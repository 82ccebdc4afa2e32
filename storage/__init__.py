"""The spool: messages and state on disk until they are settled, and their format.

Contains: the at-rest record format (`records`, pure, compiled with mypyc, independent of LMDB), the LMDB store behind
the `Store` interface, backups, reading without a broker, and inspection. Excludes: actors, asyncio and clocks. The
spool actor decides when to page messages and which journal records to delete. May import `messaging` only.
"""
