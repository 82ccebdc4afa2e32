"""MQTT on the wire: packets, properties, reason codes, limits. No state."""
