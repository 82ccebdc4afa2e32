"""`sluicegate config`: documents of what a node is told to have."""
