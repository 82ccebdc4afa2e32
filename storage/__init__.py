"""The spool: what lies on disk until it is settled, and the bytes it is made of.

What lives here: the at-rest record format (`record*.py`, pure and compiled with mypyc, knows no LMDB) and the LMDB
store behind the `Store` interface. What must not: actors, asyncio, clocks, and every decision about what is paged
when or which journal record may go; the spool actor takes those. May import `messaging` only.
"""
