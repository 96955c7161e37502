"""`python -m ferrule`: the same as the `ferrule` command."""

import sys

from ferrule.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
