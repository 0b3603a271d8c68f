"""`python -m muster`: the command line."""

from __future__ import annotations

from muster.cli.main import main

if __name__ == "__main__":
    main()
