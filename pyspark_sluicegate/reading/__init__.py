"""Reading queues: batches and streams, their offsets, plans and tasks."""
