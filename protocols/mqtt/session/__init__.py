"""State that outlives an MQTT connection: sessions, subscriptions, packet ids, quota, and the session directory."""
