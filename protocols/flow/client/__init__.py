"""The client library of the flow protocol. Programs import it as `sluicegate`.

`session` has the cores: the state of a client over reconnections, without socket, clock or event loop. `aio` runs them
on asyncio, `blocking` on a thread, for programs without asyncio. The library imports only the codec, the engine and
`messaging`: programs that use it have none of the gateway's dependencies. `docs/connect/flow-client.md` is for its
users.
"""
