"""What clients ask for over HTTP: POST a message or a batch, consume, browse, settle, and the gateway mode."""
