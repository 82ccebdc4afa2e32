"""The spool in LMDB: opening it, applying commits, copying it. The spool actor owns one."""
