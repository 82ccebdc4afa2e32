"""Who the replicas of a broker are, and what brokers a cluster has: lists that the cluster keeps itself."""
