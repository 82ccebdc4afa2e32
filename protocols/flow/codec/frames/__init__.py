"""The frames of the flow protocol, a module for each kind: `docs/flow-protocol.md` is the specification."""
