"""HTTP messaging: publishers that POST to a topic or a queue, workers that GET messages of a queue and settle them.

The grammar of HTTP is httptools' matter; what a request means, and what it is answered, is here. The HTTP port of
operators is elsewhere: `gateway.admin`.
"""
