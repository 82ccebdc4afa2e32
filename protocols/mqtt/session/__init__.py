"""State that outlives an MQTT connection: the session, its subscriptions, its stored form, the session directory."""
