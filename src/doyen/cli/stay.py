"""`python -m doyen.cli.stay FILE …`: what `Resident.become` starts.  FILE is the number of an open file."""

import os
import sys

from doyen.cli import ended
from doyen.cli.resident import lean, unpacked


def main() -> None:
    lean()
    with os.fdopen(int(sys.argv[1]), "rb") as packed:
        data = packed.read()
    ended(lambda: unpacked(data).stay())


if __name__ == "__main__":
    main()
