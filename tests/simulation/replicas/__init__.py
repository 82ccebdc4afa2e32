"""Three replicas of a broker on virtual time, over modelled NATS servers: whole processes but for their clients.

A replica is `gateway.cluster.replica.process.ReplicaProcess` with its spool, lease, standby, snapshots and trims. In
the place of the node of an owner there is a load that commits, settles and makes checkpoints on the real store
(`broker`).
Servers, their network and the threads of a process are models.
"""
