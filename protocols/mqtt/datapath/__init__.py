"""Messages in and out of one MQTT client: publishing, delivery, in-flight windows, retained messages."""
