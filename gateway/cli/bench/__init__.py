"""`sluicegate bench`: load on a running broker, and what it measures."""
