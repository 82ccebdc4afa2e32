"""Requests of clients that need other actors: handshake, bind, subscribe, provisioning, bulk."""
