"""HTTP messaging: publishers POST to a topic or a queue, workers GET messages of a queue and settle them.

httptools parses HTTP; the meaning of a request and its answer are here. The HTTP port of operators is in
`gateway.admin`.
"""
