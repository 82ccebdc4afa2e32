"""`sluicegate show`."""
