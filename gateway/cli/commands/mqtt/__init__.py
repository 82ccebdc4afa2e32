"""`sluicegate pub` and `sluicegate sub`."""
