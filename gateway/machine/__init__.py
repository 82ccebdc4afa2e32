"""Several brokers on one machine, which clients and operators see as one: a supervising process, and what it starts.

The supervisor (`supervisor`) has no actors and no messages: it starts a process for each broker (`broker`), talks with
it over a channel (`channel`), and starts it again when it dies. Brokers are linked to each other as those of a network
are. `gateway.process.brokers` says what each is called, and where its data are.
"""
