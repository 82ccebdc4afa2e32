"""Commands about clients, their profiles, subscriptions and sessions, retained messages, and ports for clients."""
