"""`sluicegate config`: declarations of a node's queues, users and other objects."""
