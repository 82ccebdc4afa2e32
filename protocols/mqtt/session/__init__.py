"""What outlives an MQTT connection: the session, its subscriptions, its stored form, their directory."""
