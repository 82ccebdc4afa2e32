"""`python -m sluicegate`: the `sluicegate` command, for where its script is not on the path."""

from sluicegate.gateway.cli import main

if __name__ == "__main__":
    main()
