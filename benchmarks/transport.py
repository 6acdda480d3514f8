"""What it takes to bring a batch from a worker, with feedrate and with its peers.

``python benchmarks/transport.py`` writes results/transport.md; ``--quick`` is a short pass that
only prints. Peers that are no part of this project are had from PyPI, without what they depend on,
into the folder that ``--peers`` names (a temporary one), and left out where that fails.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.metadata import distributions, version
from pathlib import Path

import msgspec
import tables
import transport_page
from transport_plan import LIMITS, PEERS, Failure, Peer, Value

HERE = Path(__file__).parent
INSTALL_SECONDS = 180
PROCESS_SECONDS = 180
GRACE_SECONDS = 5


@dataclass(frozen=True, slots=True)
class Pace:
    """How long the measurement goes on."""

    rounds: int
    seconds: float
    """Of one value."""


FULL = Pace(3, 0.3)
QUICK = Pace(1, 0.05)


def install(package: str, folder: Path) -> str | None:
    """Have a package from PyPI in the folder; return why that failed, ``None`` if it is there."""
    if version_in(package, folder) is not None:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--target", str(folder), package]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=INSTALL_SECONDS
        )
    except subprocess.TimeoutExpired:
        return f"{package} could not be had from PyPI within {INSTALL_SECONDS} s"
    if done.returncode:
        return f"{package} could not be had from PyPI ({_last_line(done.stderr)})"
    return None


def version_in(package: str, folder: Path) -> str | None:
    """Return a package's version in a folder, ``None`` where it is not."""
    for found in distributions(name=package, path=[str(folder)]):
        return found.version
    return None


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no reason given"])[-1]


def run(peer: Peer, folder: Path, pace: Pace, *, check: bool) -> list[Value | Failure]:
    """Measure one peer in a process of its own; what it measured before it failed counts."""
    with tempfile.TemporaryDirectory() as temporary:
        results, errors = Path(temporary) / "results", Path(temporary) / "errors"
        results.touch()
        command = [sys.executable, str(HERE / "transport_peers.py"), peer.key, str(results)]
        command += [str(pace.seconds), *(["check"] if check else [])]
        paths = [str(folder / peer.package)] if peer.package else []
        paths += [path for path in [os.environ.get("PYTHONPATH")] if path]
        with errors.open("w") as file:
            child = subprocess.Popen(
                command,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
                stdout=subprocess.DEVNULL,
                stderr=file,
                start_new_session=True,
            )
        reason = None
        try:
            if child.wait(PROCESS_SECONDS):
                reason = _last_line(errors.read_text(errors="replace"))
        except subprocess.TimeoutExpired:
            reason = f"it did not end within {PROCESS_SECONDS} s"
        finally:
            _end(child)
        decoder = msgspec.json.Decoder(Value | Failure)
        found: list[Value | Failure] = decoder.decode_lines(results.read_bytes())
    return [*found, Failure(peer.key, reason)] if reason else found


def _end(child: subprocess.Popen[bytes]) -> None:
    """End the child and its workers; Python's tracker of shared memory outlives the first signal.

    So that it removes what they leave behind.
    """
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(GRACE_SECONDS)
            return
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def measure(folder: Path, pace: Pace) -> tuple[list[Value], list[Failure], dict[str, str]]:
    """Return all values, what is missing, and the versions of the peers from PyPI.

    The first round looks at what the batches hold, too: what was not right then gets no credit.
    """
    failures, here = [], []
    versions = {"NumPy": version("numpy")}
    for peer in PEERS:
        if peer.package is not None:
            reason = install(peer.package, folder / peer.package)
            if reason is not None:
                failures.append(Failure(peer.key, reason))
                continue
            versions[peer.package] = version_in(peer.package, folder / peer.package) or "unknown"
        here.append(peer)
    here.append(LIMITS)
    values: list[Value] = []
    for turn in range(pace.rounds):
        for peer in here[turn:] + here[:turn]:
            start = time.perf_counter()
            found = run(peer, folder, pace, check=turn == 0)
            took = time.perf_counter() - start
            print(f"round {turn + 1} of {pace.rounds}: {peer.title}, {took:.0f} s", file=sys.stderr)
            values += [value for value in found if isinstance(value, Value)]
            failures += [failure for failure in found if isinstance(failure, Failure)]
        if turn == 0:
            checked = {_key(value) for value in values}
    return [value for value in values if _key(value) in checked], failures, versions


def _key(value: Value) -> tuple[str, str, int]:
    return value.peer, value.batch, value.workers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a short pass that writes no page")
    parser.add_argument("--peers", type=Path, help="a folder to keep peers from PyPI in")
    given = parser.parse_args()
    pace = QUICK if given.quick else FULL
    with contextlib.ExitStack() as stack:
        folder = given.peers or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        values, failures, versions = measure(folder.absolute(), pace)
    results = transport_page.Results(values)
    parts = transport_page.page(results, failures, versions, pace.rounds)
    if given.quick:
        print("\n\n".join(parts))
    else:
        tables.write("transport.md", *parts)


if __name__ == "__main__":
    main()
