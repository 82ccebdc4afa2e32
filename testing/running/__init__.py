"""Where a broker under test runs, and what is asked of it there.

`host` is the broker on its event loop. `thread` has that loop on a thread of the test's process, `process` in a process
of its own, which `template` has forked. The test's side of a broker in another process imports nothing of the broker.
"""
