"""The spool: what lies on disk until it is settled, and the bytes it is made of.

What lives here: the at-rest record format (`record*.py`, pure and compiled with mypyc, knows no LMDB), the LMDB store
behind the `Store` interface, and what is done with its files beside that: backups, reading without a broker,
inspection. What must not: actors, asyncio, clocks, and every decision about what is paged when or which journal record
may go; the spool actor takes those. May import `messaging` only.
"""
