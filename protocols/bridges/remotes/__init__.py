"""The foreign brokers' sides of bridges, one module for each client library. They run in threads of their own.

Each module has a class derived from `protocols.bridges.remote.RemoteBroker`. Nothing here knows actors or the loop;
only how a stall of this process is noticed is common to all (`actors.runtime.ticker.Stalls`).
"""
