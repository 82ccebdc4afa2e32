"""The commands of `sluicegate`, a module each."""
