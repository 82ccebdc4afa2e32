"""What both the configuration and operators can make: users, profiles, queues, delivery points."""
