"""`sluicegate queue` and `sluicegate template`: queues, their messages and cursors, and queue templates."""
