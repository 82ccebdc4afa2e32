"""Records and spool files, whole and damaged."""
