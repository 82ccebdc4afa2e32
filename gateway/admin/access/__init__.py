"""Access to an operators' port: accounts, foreign web pages, the audit, and limits on concurrent requests."""
