"""Operations on one message VPN: its queues, messages, clients, users, profiles and bridges."""
