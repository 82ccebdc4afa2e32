"""What the AMQP connections of one message VPN know of each other: containers, temporary nodes, subscriptions."""
