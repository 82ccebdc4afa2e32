"""MQTT packets as bytes, and clients that send them."""
