"""Byte streams and their listeners: TCP, TLS, WebSocket. Knows no protocol above them."""
