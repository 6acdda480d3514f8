"""``feedrate``, and ``python -m feedrate``, as ``torchrun -m feedrate`` starts it."""

import sys

from feedrate.errors import Interrupted


def main() -> None:
    """Run the command; Ctrl-C while it is still being imported ends it as at any other time."""
    try:
        from feedrate.cli.main import main as run
    except KeyboardInterrupt:
        sys.stderr.write("feedrate: interrupted\n")
        sys.exit(Interrupted.exit_code)
    run()


if __name__ == "__main__":
    main()
