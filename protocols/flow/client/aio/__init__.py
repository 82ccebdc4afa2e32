"""The client library for asyncio. Programs import it as `sluicegate`."""
