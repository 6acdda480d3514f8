"""What the benchmarks' pages have in common: host line and table."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from feedrate.host.metadata import gather

RESULTS = Path(__file__).parent / "results"


def made_by(script: str) -> str:
    """Return the line that says what made a page, where and with which versions."""
    host = gather("", (), None, "")
    return (
        f"Made by `python benchmarks/{script}` on {host.cpu}, {host.usable_cpus:g} usable CPUs, "
        f"{host.os}, Python {host.python_version}, torch {version('torch')}, feedrate "
        f"{host.feedrate_version}."
    )


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; the first column is text, the others are figures."""
    lines = [
        "| " + " | ".join(head) + " |",
        "|---|" + "---:|" * (len(head) - 1),
        *("| " + " | ".join(row) + " |" for row in rows),
    ]
    return "\n".join(lines)


def write(name: str, *parts: str) -> None:
    """Write a page below results/ and print it."""
    RESULTS.mkdir(exist_ok=True)
    text = "\n\n".join(parts) + "\n"
    (RESULTS / name).write_text(text, encoding="utf-8")
    print(text)
