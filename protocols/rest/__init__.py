"""REST delivery points: queues whose messages are pushed to web servers, as requests that the broker makes.

A delivery point consumes its queues with flows of `protocols.http`, and may import that. The bytes of HTTP are
aiohttp's matter; what is configured comes in as `settings`. Requests that clients make are elsewhere: `protocols.http`.
"""
