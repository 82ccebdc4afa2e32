"""The admin API: its operations, their schemas, and the OpenAPI document."""
