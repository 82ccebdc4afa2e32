"""Sockets, TLS, certificates, tokens and event loops."""
