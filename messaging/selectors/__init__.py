"""Message selectors: the SQL of JMS, its dialects, and the cache of compiled selectors.

A selector judges one message. Which queue or subscription has one is decided elsewhere."""
