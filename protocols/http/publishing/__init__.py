"""Publishing over HTTP: messages of requests, batches of them, and the topics on which replies come."""
