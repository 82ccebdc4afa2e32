"""Connections that a trace follows: each of one client, or those that authenticate each request."""
