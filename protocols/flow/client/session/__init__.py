"""The client's session, sans IO: connection states, flows, requests, what is sent again. Compiled."""
