"""The frames of the flow protocol, a module per kind, as `docs/flow-protocol.md` specifies them."""
