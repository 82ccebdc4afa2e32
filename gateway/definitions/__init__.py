"""Definitions: what operators created, as one document. It is exported, compared with a node, and applied to it.

It works on a `NodeInterface`, so it is the same for a node, the brokers of a machine and the owner of a replica.
`gateway.provisioning` has the objects themselves; the admin API is in `gateway.admin.rest.node.definitions`.
"""
