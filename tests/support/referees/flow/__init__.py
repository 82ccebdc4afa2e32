"""The referee of the flow protocol."""
