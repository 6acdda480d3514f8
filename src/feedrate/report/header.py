"""The head of a report: on which host, with what data, and how it was measured."""

from __future__ import annotations

from rich.console import Group, RenderableType

from feedrate import units
from feedrate.records import LoaderFacts, Metadata, Suite
from feedrate.report.hanging import Hanging
from feedrate.report.words import all_runs, count, cpus, facts_of, items_word


def render_header(suite: Suite) -> RenderableType:
    """Return the head of a report: target, host, software, data and procedure."""
    lines = [
        ("host", host_line(suite.metadata)),
        ("software", software_line(suite.metadata)),
        *(("data", line) for line in data_lines(suite)),
        ("measured", procedure_line(suite)),
    ]
    title = Hanging(
        f"feedrate {suite.kind}  ", suite.metadata.target, lead_style="dim", style="bold"
    )
    return Group(title, *(Hanging(f"{name:10}", line, lead_style="dim") for name, line in lines))


def host_line(metadata: Metadata) -> str:
    """Return CPU, usable CPUs and why, memory and accelerator."""
    memory = f"{units.size(metadata.ram_bytes)} RAM"
    limit = metadata.memory_limit_bytes
    if limit is not None and limit < metadata.ram_bytes:
        memory += f" (limit {units.size(limit)})"
    parts = [metadata.cpu, cpus(metadata), memory]
    if metadata.shm_bytes is not None:
        parts.append(f"{units.size(metadata.shm_bytes)} /dev/shm")
    # without torch's version no child has answered, and nothing is known about accelerators
    if metadata.accelerator is not None or metadata.torch_version is not None:
        parts.append(metadata.accelerator or "no accelerator")
    return " · ".join(parts)


def software_line(metadata: Metadata) -> str:
    """Return the versions of what took part, and the operating system."""
    versions = (
        ("torch", metadata.torch_version),
        ("torchvision", metadata.torchvision_version),
        ("NumPy", metadata.numpy_version),
        ("Python", metadata.python_version),
        ("feedrate", metadata.feedrate_version),
    )
    parts = [f"{name} {version}" for name, version in versions if version is not None]
    return " · ".join([*parts, metadata.os])


def data_lines(suite: Suite) -> tuple[str, ...]:
    """Return one line for each different dataset and batch size that was measured."""
    largest: dict[tuple[object, ...], LoaderFacts] = {}
    for benchmark in suite.benchmarks:
        facts = facts_of(benchmark)
        if facts is None:
            continue
        key = (facts.dataset_type, facts.dataset_length, facts.batch_size, facts.length)
        known = largest.get(key)
        if known is None or facts.batch_bytes > known.batch_bytes:
            largest[key] = facts
    return tuple(_data_line(facts, items_word(suite)) for facts in largest.values())


def procedure_line(suite: Suite) -> str:
    """Return epochs, cuts, repeats, their order, the step and when it began."""
    procedure = suite.procedure
    epochs = "1 cold epoch"
    if procedure.epochs > 1:
        epochs += f" and {count(procedure.epochs - 1, 'later epoch')}"
    if procedure.max_batches is not None:
        epochs += f" of at most {count(procedure.max_batches, 'batch', 'batches')}"
    parts = [f"{epochs} a run", _repeats(suite), _step(suite)]
    if suite.metadata.seed is not None:
        parts.append(f"seed {suite.metadata.seed}")
    parts.append(_minute(suite.metadata.started_at))
    return " · ".join(part for part in parts if part)


def _data_line(facts: LoaderFacts, items: str) -> str:
    dataset = facts.dataset_type.rpartition(".")[2]
    if facts.iterable:
        dataset += " (iterable)"
    parts = [dataset]
    if facts.dataset_length is not None:
        parts.append(f"{units.number(facts.dataset_length)} {items}")
    batch = f"batches of {units.number(facts.batch_size)}" if facts.batch_size else "own batches"
    if facts.batch_bytes:
        batch += f", {units.size(facts.batch_bytes)} each"
    if facts.length is not None:
        batch += f", {units.number(facts.length)} an epoch"
    return " · ".join([*parts, batch])


def _repeats(suite: Suite) -> str:
    runs = [len(benchmark.runs) for benchmark in suite.benchmarks if benchmark.runs]
    if not runs:
        return ""
    least, most = min(runs), max(runs)
    text = count(most, "run") if least == most else f"{least} to {count(most, 'run')}"
    return f"{text} a setting" + (", repeats in rotated order" if most > 1 else "")


def _step(suite: Suite) -> str:
    seconds = suite.procedure.step_seconds
    if seconds is not None:
        return f"a simulated step of {units.seconds(seconds)}"
    seen = {run.facts.has_step for run in all_runs(suite) if run.facts is not None}
    if not seen:
        return ""
    return "with the target's own step" if True in seen else "without a step: the loader alone"


def _minute(moment: str) -> str:
    """Shorten an ISO moment to its minute; what has another form stays as it is."""
    date, separator, clock = moment.partition("T")
    if not separator:
        return moment
    return f"{date} {clock[:5]}" + (" UTC" if clock.endswith(("Z", "+00:00")) else "")
