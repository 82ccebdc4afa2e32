"""What two linked brokers tell each other, in the bodies of frames: interests, neighbors, and packets of MQTT."""
