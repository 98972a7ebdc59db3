"""Runs the `nmt` command with `python -m nmt`, which `torchrun -m nmt train ...` requires."""

import sys

from nmt.cli import main

if __name__ == "__main__":
    sys.exit(main())
