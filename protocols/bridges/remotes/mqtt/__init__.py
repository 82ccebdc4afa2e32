"""Foreign brokers that speak MQTT: 5 by paho-mqtt, 3.1.1 by amqtt's packets over a session and a socket of ours."""
