"""`python -m gateway`: the `sluicegate` command, for where its script is not on the path."""

from gateway.cli import main

if __name__ == "__main__":
    main()
