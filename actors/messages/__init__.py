"""The messages between actors, one module for each receiver. Values only: no behaviour, no actor."""
