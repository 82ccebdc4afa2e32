"""Requests of clients that need other actors: the handshake, bind, provisioning, bulk."""
