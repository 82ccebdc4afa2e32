"""Clients that are judged by a count: of direct messages, and of retained ones. None of them knows a broker's judge."""
