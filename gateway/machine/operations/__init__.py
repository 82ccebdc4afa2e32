"""The operations of operators on a machine with several brokers, which they see as one.

Each operation follows one of few rules (`rules`). What has a home (a queue, a client, a bridge) is looked for, broker
by broker. Lists are joined, and totals added up (`merging`). What holds for all (users, profiles, message VPNs,
templates, links) is changed at all brokers, which therefore have to run, and read at one of them. `machine` has them
all.
"""
