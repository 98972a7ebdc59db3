"""Lets `python -m nmt` run the `nmt` command; `torchrun -m nmt train ...` requires this module."""

import sys

from nmt.cli import main

if __name__ == "__main__":
    sys.exit(main())
