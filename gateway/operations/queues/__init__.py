"""Operations on queues and their messages, those of neighbor brokers included. Their views are made here."""
