"""`sluicegate bench`: put load on a running gateway, and measure it."""
