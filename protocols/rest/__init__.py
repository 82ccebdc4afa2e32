"""REST delivery points: queues whose messages are pushed to web servers, as requests that the broker makes.

A delivery point consumes its queues with flows of `protocols.http`, and may import that. aiohttp speaks HTTP; the
configuration comes in as `settings`. Requests that clients make are in `protocols.http`.
"""
