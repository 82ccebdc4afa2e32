"""The client's session, sans IO: connection states, flows, requests, and what is sent again. Compiled."""
