"""``python -m feedrate``: the command, as ``torchrun -m feedrate`` starts it."""

from feedrate.cli.main import main

if __name__ == "__main__":
    main()
