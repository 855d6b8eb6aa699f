"""``python -m gangsched``: the same as the command."""

import sys

from gangsched.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
