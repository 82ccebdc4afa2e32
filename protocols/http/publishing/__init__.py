"""Publishing over HTTP: single messages, batches, request and reply, gateway mode."""
