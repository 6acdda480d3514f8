"""Checks of files: how many may be open, what storage they are on, and what memory holds."""

from __future__ import annotations

from feedrate import units
from feedrate.doctor.checks import Check, DoctorFacts
from feedrate.doctor.facts import Facts
from feedrate.doctor.figures import say
from feedrate.records import Evidence, Finding

USUAL_DESCRIPTORS = 1024
"""The soft limit that Linux systems commonly begin with, and that ordinary loaders live with."""


def _descriptors(facts: DoctorFacts) -> Finding | None:
    host = facts.machine.host
    limit = host.descriptors
    # elsewhere torch hands tensors over by name, which leaves no descriptor open
    if host.system != "Linux" or limit is None or limit >= USUAL_DESCRIPTORS:
        return None
    sentence, evidence = say(("descriptors",), Facts(host))
    most = host.descriptors_most
    raised = USUAL_DESCRIPTORS * 16 if most is None else min(most, USUAL_DESCRIPTORS * 16)
    own_way = f"ulimit -n {raised} before training, or " if raised > limit else ""
    return Finding(
        code="risk.few_descriptors",
        severity="warning",
        title=f"few files may be open at once: {sentence}",
        why=(
            "torch's sharing strategy on Linux, file_descriptor, keeps one open for every tensor "
            "that workers hand over; with many tensors in a batch, or batches kept, training ends "
            "with 'Too many open files'"
        ),
        remedy=f'{own_way}torch.multiprocessing.set_sharing_strategy("file_system")',
        evidence=evidence,
    )


def _descriptors_seen(facts: DoctorFacts) -> str:
    host = facts.machine.host
    strategy = "file_descriptor" if host.system == "Linux" else "file_system"
    sentence = say(("descriptors",), Facts(host))[0]
    return f"{sentence}; torch's sharing strategy is {strategy} by default"


_SLOW = {
    "network storage": "reads wait for the network while the CPU is idle, and differ from day to "
    "day; more workers than CPUs often pay, until the network is full",
    "share of the host": "every file passes between the virtual machine and its host, which costs "
    "most with many small files",
    "spinning disk": "files in random order make the disk seek for each; more workers pay only "
    "until it is busy",
}


def _storage(facts: DoctorFacts) -> Finding | None:
    storage, size = facts.machine.storage, facts.machine.data_size
    # where no data was named, nobody knows that it lies under the working directory
    if storage is None or size is None or storage.kind not in _SLOW:
        return None
    return Finding(
        code="storage",
        severity="info",
        title=f"{storage.place} is on {_kind(facts)}",
        why=_SLOW[storage.kind],
        remedy=(
            "copy the data to a local disk if it fits, or pack small files into large ones; "
            "feedrate tune finds how many workers pay"
        ),
        evidence=(
            Evidence(name="data", value=float(size.bytes), unit="bytes"),
            Evidence(name="files", value=float(size.files), unit=""),
        ),
    )


def _storage_seen(facts: DoctorFacts) -> str:
    storage = facts.machine.storage
    if storage is None or storage.kind == "unknown":
        return ""
    place = "the working directory" if storage.place == "." else storage.place
    return f"{place} is on {_kind(facts)}"


def _kind(facts: DoctorFacts) -> str:
    storage = facts.machine.storage
    assert storage is not None
    article = "" if storage.kind in ("memory", "network storage") else "a "
    return f"{article}{storage.kind} ({storage.filesystem})"


def _page_cache(facts: DoctorFacts) -> Finding | None:
    size, memory = facts.machine.data_size, facts.machine.host.memory
    if size is None or size.bytes <= memory.free:
        return None
    return Finding(
        code="page_cache",
        severity="info",
        title=f"the data does not fit into memory: {_sizes(facts)}",
        why=(
            "the kernel cannot keep all files in its page cache, so that every epoch reads from "
            "storage again; what a measurement of a small part shows is too good"
        ),
        remedy="measure with all of the data; smaller files or more memory would help",
        evidence=(
            Evidence(name="data", value=float(size.bytes), unit="bytes"),
            Evidence(name="memory that can cache it", value=float(memory.free), unit="bytes"),
        ),
    )


def _page_cache_seen(facts: DoctorFacts) -> str:
    size = facts.machine.data_size
    if size is None:
        return ""
    if not size.whole:
        return f"the data could not be counted in the time there is: {_sizes(facts)}"
    return f"the data fits into memory, where it is read from after an epoch: {_sizes(facts)}"


def _sizes(facts: DoctorFacts) -> str:
    size, memory = facts.machine.data_size, facts.machine.host.memory
    assert size is not None
    least = "" if size.whole else "at least "
    files = f"{units.number(size.files)} file{'' if size.files == 1 else 's'}"
    return f"{least}{units.size(size.bytes)} in {files}, {units.size(memory.free)} free"


CHECKS = (
    Check("open files", _descriptors, _descriptors_seen),
    Check("storage", _storage, _storage_seen),
    Check("page cache", _page_cache, _page_cache_seen),
)
