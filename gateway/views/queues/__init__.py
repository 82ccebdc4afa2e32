"""Views of queues and of what is in them: messages, durable cursors; what selects messages, and what explains them."""
