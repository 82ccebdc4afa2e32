"""The subcommands of `sluicegate`."""
