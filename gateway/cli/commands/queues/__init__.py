"""`sluicegate queue`, `template`, `selector` and `explain`: queues, their messages and cursors, and their routing."""
