"""What a commit writes: the planner, publications that wait for it, and the index of the journal. Pure."""
