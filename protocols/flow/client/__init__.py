"""The client library of the flow protocol. Programs import it as `sluicegate`.

`session`, `outbox` and `inbox` are the cores: what a client remembers over connections that break, without socket,
clock or event loop. `client`, `publisher` and `consumer` carry them out on asyncio, `blocking` for programs without it.
Of ours only the codec and `messaging` may be imported: a program that uses the library has none of what the gateway
needs. `docs/flow-client.md` is for its users.
"""
