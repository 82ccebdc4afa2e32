"""Publishing over HTTP: messages of requests, batches, and request-reply."""
