"""`python -m nmt`, so that `torchrun -m nmt train ...` works."""

import sys

from nmt.cli import main

if __name__ == "__main__":
    sys.exit(main())
