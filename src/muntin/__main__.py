"""`python -m muntin` is the command `muntin`."""

import sys

from muntin.cli import main

if __name__ == "__main__":
    sys.exit(main())
