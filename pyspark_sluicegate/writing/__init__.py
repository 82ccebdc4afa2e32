"""Writing to queues: sinks, staged rows, and Spark's columns as the wire's."""
