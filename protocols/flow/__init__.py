"""The flow protocol: our own binary protocol for direct and guaranteed messages.

Here live its codec (`frames`, `fields`, `columns`, `properties` and all that is called `..._frames`), the
sans-IO engine that both ends use, and the gateway's connection over it. Only the connection may touch a transport. The
other end, a library for programs, is in `client/`.
`docs/flow-protocol.md` is the specification; its sections are cited as `Flow: publishing`.
"""
