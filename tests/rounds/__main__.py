"""`python -m rounds`: hurt a replicated broker under load, and balance what its clients were told."""

import sys

from rounds.command import main

if __name__ == "__main__":
    sys.exit(main())
