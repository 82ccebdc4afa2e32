"""The client library for programs without asyncio: the same clients, run on a thread."""
