"""The part of a replica that knows of another site: it receives that site's log, and switches between the two."""
