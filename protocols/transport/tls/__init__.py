"""TLS of listeners: the transport, and contexts made from files."""
