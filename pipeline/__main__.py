"""`python -m sluicegate.pipeline`, which is what `sluicegate pipeline` becomes."""

from sluicegate.pipeline.cli import main

main()
