"""The whole path of messages in one command, `make demo`: devices, gateway, workers, archive, audit, on real data.

The demo uses the gateway from outside, as its users do, and is not installed. `docs/tutorial/demo.md` describes it.
`show` runs the steps in order; each part has its own module.
"""
