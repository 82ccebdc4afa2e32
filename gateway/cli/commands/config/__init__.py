"""`sluicegate config`: definitions of a node's queues, users and other objects."""
