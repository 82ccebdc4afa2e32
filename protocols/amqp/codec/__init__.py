"""AMQP on the wire: frames, performatives, delivery states, sections, addresses. No state."""
