"""Messages in and out of one MQTT client: publishing, delivering, in-flight windows, retained."""
