"""`sluicegate queue`, and what belongs to queues: messages, cursors, templates."""
