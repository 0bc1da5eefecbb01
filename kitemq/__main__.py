"""`python -m kitemq` is `kitemq`."""

import sys

from kitemq.cli import main

if __name__ == "__main__":
    sys.exit(main())
