"""Message selectors: the SQL of JMS, its dialects, and the cache of compiled selectors.

A selector judges one message. Queues and subscriptions decide elsewhere which selector applies.
"""
