"""Operations on message VPNs and what they separate: clients, users with their profiles, subscriptions."""
