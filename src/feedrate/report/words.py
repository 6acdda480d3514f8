"""What the parts of a suite are called: for the table and for the figure alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from feedrate import units
from feedrate.records import Benchmark, LoaderFacts, Metadata, Run, Suite

_PARTS = {
    "sweep": "sweep",
    "repeated": "repeated in rotated order",
    "pin_memory": "pinned memory, off and on",
}

_OF_IMAGES = ("fashion-mnist", "demo")


def items_word(suite: Suite) -> str:
    """Return "images" where the target is known to deliver images, else "items"."""
    # the experiments' names: "demo (feedrate-demo/train.py)", and no script called demo.py
    return "images" if suite.metadata.target.split(" ")[0] in _OF_IMAGES else "items"


def part_words(part: str) -> str:
    """Return what to call a part of a condition."""
    return _PARTS.get(part, part.replace("_", " "))


def count(number: float, one: str, many: str = "") -> str:
    """Return "1 worker", "2 workers"; ``many`` is the plural where it is not ``one`` with an s."""
    return f"{units.number(number)} {one if number == 1 else many or one + 's'}"


def listed(words: Sequence[str]) -> str:
    """Return "a", "a and b", "a, b and c"."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def cpus(metadata: Metadata) -> str:
    """Return how many CPUs may be used, of how many, what sets the limit, and who shares them."""
    usable = count(metadata.usable_cpus, "usable CPU")
    if metadata.local_ranks > 1:
        usable += f" for {metadata.local_ranks} ranks"
    if metadata.usable_cpus == metadata.logical_cpus:
        return usable
    return f"{usable} of {units.number(metadata.logical_cpus)} ({metadata.usable_cpus_from})"


def all_runs(suite: Suite) -> Iterator[Run]:
    """Yield every run of the suite, in the benchmarks' order."""
    for benchmark in suite.benchmarks:
        yield from benchmark.runs


def facts_of(benchmark: Benchmark) -> LoaderFacts | None:
    """Return what is known about the loader of a benchmark, the fullest there is."""
    known = [run.facts for run in benchmark.runs if run.facts is not None]
    return max(known, key=lambda facts: facts.batch_bytes, default=None)
