"""Fetches FashionMNIST through torchvision; run as a process of its own, since torch is heavy.

``python -m feedrate.experiments.download DATA_DIR`` ends with 0, or with 1 and the reason as the
last line on stderr.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import tempfile
from pathlib import Path

from feedrate.experiments.idx import FILES, raw_folder

SILENCE_SECONDS = 30.0  # a server that sends nothing for so long will not send any more


def download(data_dir: str | Path) -> None:
    """Fetch the four files; they appear in ``data_dir`` only when all of them are whole.

    torchvision takes a file whose name is there for complete, so an interrupted download must
    not leave one: the files are fetched beside their place and then moved.

    Raises:
        RuntimeError: torchvision could not fetch or verify one of them.
        OSError: the folder cannot be written to, or the network failed.
    """
    from torchvision.datasets import FashionMNIST

    folder = raw_folder(data_dir)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".download-") as partial:
        FashionMNIST(partial, download=True)
        for file in FILES:
            (raw_folder(partial) / file.name).replace(folder / file.name)


def main() -> int:
    """Download into the folder that is the only argument, and return the exit status."""
    socket.setdefaulttimeout(SILENCE_SECONDS)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            download(sys.argv[1])
    except (OSError, RuntimeError) as error:
        print(_last_line(error), file=sys.stderr)  # noqa: T201 - this process's answer
        return 1
    return 0


def _last_line(error: Exception) -> str:
    """Return what went wrong; torchvision lists each address that it tried before it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


if __name__ == "__main__":
    sys.exit(main())
