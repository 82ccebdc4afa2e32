"""The admin API: operations, their documents, OpenAPI."""
