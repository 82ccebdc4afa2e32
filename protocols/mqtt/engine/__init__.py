"""The sans-IO engine of one MQTT connection. Bytes in, events out."""
