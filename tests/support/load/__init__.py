"""Clients for tests under load, many in one thread, and the record of what they published and received."""
