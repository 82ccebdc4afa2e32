"""The client library without asyncio: the same clients on a thread of their own."""
