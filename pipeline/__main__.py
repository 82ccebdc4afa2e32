"""`python -m sluicegate.pipeline`, the program behind `sluicegate pipeline`."""

from sluicegate.pipeline.cli import main

main()
