"""The HTTP port for operators: the admin API, SEMP, the console, health and metrics. It calls a `NodeInterface`.

It holds no state of its own. Messages over HTTP are a protocol (`protocols/http`) on another port. `server` starts the
port, and `app` combines the admin API, SEMP and the console.
"""
