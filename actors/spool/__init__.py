"""The spool actor: ordered commits, the threads that write and read, the catalog, backups.

Only the composition root imports it; requests to it are in `actors.messages`.
"""
