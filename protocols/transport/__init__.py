"""Streams of bytes and who accepts them: listeners, TLS, WebSocket. Knows no protocol above them."""
