"""The frames of the flow protocol, a module per kind, as `docs/connect/flow-protocol.md` specifies them."""
