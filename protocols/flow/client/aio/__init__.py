"""The client library for asyncio. Programs import it by `sluicegate`."""
