"""Requests of clients that need other actors: CONNECT, SUBSCRIBE, enhanced authentication, flows of queues."""
