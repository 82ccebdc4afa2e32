"""`python -m pipeline`, which is what `sluicegate pipeline` becomes."""

from pipeline.cli import main

main()
