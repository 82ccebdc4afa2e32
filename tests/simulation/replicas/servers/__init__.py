"""NATS servers with JetStream, as the client library shows them: what a majority agrees on, and a network before it."""
