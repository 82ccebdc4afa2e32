"""The whole way in one command, `make demo`: devices, gateway, workers, archive, audit, on real data.

What lives here uses the gateway from outside, as its users do, and is not installed. `docs/demo.md` says what is to be
seen. `show` is the order of events; the parts that it puts together have a file each.
"""
