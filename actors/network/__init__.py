"""Links between brokers: messages as they travel. Their rules are in `messaging.network`, connections in protocols."""
