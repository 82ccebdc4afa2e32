"""Consuming over HTTP: long polls, server-sent events, browsing, settling by URL."""
