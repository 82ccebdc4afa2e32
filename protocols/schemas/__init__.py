"""Schemas of payloads: JSON Schema, Avro and Protobuf, read from files and made into functions that check a payload."""
