"""The content of a commit: the planner, the pending publications, and the index of the journal. Pure."""
