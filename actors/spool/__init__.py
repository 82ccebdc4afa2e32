"""The spool actor: commits in order, threads that write, the catalog, backups.

Nobody imports it but the composition root; requests to it are in `actors.messages`."""
