"""Views of message VPNs and of what they separate: clients, users with their profiles, subscriptions."""
