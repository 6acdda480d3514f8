"""What this machine's figures say about a cause: a sentence, and the evidence that it stands on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from feedrate import units
from feedrate.doctor.entry import Figure
from feedrate.doctor.facts import Facts, HostFacts, ProgramFacts
from feedrate.records import Evidence

Said = tuple[str, tuple[Evidence, ...]]
_NOTHING: Said = ("", ())

_SMALL_SHM = 256 << 20
_MUCH_SHM = 1 << 30
_MOSTLY_USED = 0.9
_FEW_DESCRIPTORS = 4096


def say(figures: Sequence[Figure], facts: Facts) -> Said:
    """Return what is known here about the figures that a cause asks for; ("", ()) if nothing is."""
    if facts.host is None:
        return _NOTHING
    said = [_SPEAKERS[figure](facts.host, facts.program) for figure in figures]
    sentences = [sentence for sentence, _ in said if sentence]
    return "; ".join(sentences), tuple(item for _, evidence in said for item in evidence)


def near_limit(facts: Facts) -> bool:
    """Tell whether the program had nearly as many descriptors open as it may."""
    host, used = facts.host, facts.program.descriptors
    limit = host.descriptors if host is not None else None
    return used is not None and limit is not None and used >= _MOSTLY_USED * limit


def _shm(host: HostFacts, _: ProgramFacts) -> Said:
    if host.shm is None:
        return "there is no /dev/shm on this platform", ()
    total, free = host.shm.total, host.shm.free
    sentence = f"/dev/shm has {units.size(total)}, {units.size(free)} of it free now"
    if total <= _SMALL_SHM:
        sentence += ", which is little (a container's default is 64.0 MiB)"
    elif free < total * (1 - _MOSTLY_USED):
        sentence += ": something fills it"
    elif free >= _MUCH_SHM:
        sentence += ", which is room enough: it was full for a moment only, or elsewhere"
    evidence = (
        Evidence(name="size of /dev/shm", value=float(total), unit="bytes"),
        Evidence(name="free in /dev/shm", value=float(free), unit="bytes"),
    )
    return sentence, evidence


def _memory(host: HostFacts, _: ProgramFacts) -> Said:
    memory = host.memory
    sentence = f"{units.size(memory.free)} of memory can be taken now"
    evidence = [Evidence(name="free memory", value=float(memory.free), unit="bytes")]
    if memory.cgroup_limit is not None and memory.source == "cgroup limit":
        sentence += f", of a group limit of {units.size(memory.cgroup_limit)}"
        evidence.append(
            Evidence(name="memory limit", value=float(memory.cgroup_limit), unit="bytes")
        )
    else:
        sentence += f", of {units.size(memory.total)}"
        evidence.append(Evidence(name="memory", value=float(memory.total), unit="bytes"))
    return sentence, tuple(evidence)


def _memory_kills(host: HostFacts, program: ProgramFacts) -> Said:
    if program.memory_kills is not None:
        kills = program.memory_kills
        evidence = (
            Evidence(name="memory kills while it ran", value=float(kills), unit="processes"),
        )
        if kills > 0:
            return f"the kernel killed {_processes(kills)} for memory while it ran", evidence
        return "the kernel counted no memory kill while it ran: somebody else ended it", evidence
    if host.memory_kills is None:
        return "memory kills are not counted here", ()
    kills = host.memory_kills
    evidence = (Evidence(name="memory kills counted here", value=float(kills), unit="processes"),)
    if kills > 0:
        return (
            f"the kernel has killed {_processes(kills)} for memory here since it started",
            evidence,
        )
    return (
        (
            "the kernel counts no memory kill here, so it was another group or machine, or "
            "somebody else ended it"
        ),
        evidence,
    )


def _descriptors(host: HostFacts, program: ProgramFacts) -> Said:
    if host.descriptors is None:
        return "this platform tells no limit on open files", ()
    limit = host.descriptors
    sentence = f"ulimit -n is {units.number(limit)} here"
    evidence = [Evidence(name="descriptors allowed", value=float(limit), unit="descriptors")]
    most = host.descriptors_most
    if most is None or most > limit:
        up_to = "without limit" if most is None else f"up to {units.number(most)}"
        sentence += f", and can be raised {up_to}"
    elif limit < _FEW_DESCRIPTORS:
        sentence += ", and only an administrator can raise it"
    if program.descriptors is not None:
        sentence += f"; the program had {units.number(program.descriptors)} open"
        evidence.append(
            Evidence(name="descriptors open", value=float(program.descriptors), unit="descriptors")
        )
    return sentence, tuple(evidence)


def _of_processes(host: HostFacts, _: ProgramFacts) -> Said:
    if host.processes is None:
        return "ulimit -u sets no limit here; a container's pids limit may", ()
    return (
        f"ulimit -u is {units.number(host.processes)} here",
        (Evidence(name="processes allowed", value=float(host.processes), unit="processes"),),
    )


def _maps(host: HostFacts, _: ProgramFacts) -> Said:
    if host.maps is None:
        return _NOTHING
    return (
        f"a process may have {units.number(host.maps)} mappings here (vm.max_map_count)",
        (Evidence(name="mappings allowed", value=float(host.maps), unit="mappings"),),
    )


def _cpus(host: HostFacts, _: ProgramFacts) -> Said:
    return (
        f"{units.number(host.usable_cpus)} CPUs can be used here",
        (Evidence(name="usable CPUs", value=host.usable_cpus, unit="CPUs"),),
    )


def _start_method(host: HostFacts, _: ProgramFacts) -> Said:
    return f"Python {host.python_version} here starts workers by {host.start_method}", ()


def _versions(host: HostFacts, _: ProgramFacts) -> Said:
    torch = f"torch {host.torch_version}" if host.torch_version else "no torch is installed"
    return f"{torch}, Python {host.python_version}, {host.system} here", ()


def _processes(count: int) -> str:
    return f"{units.number(count)} process{'' if count == 1 else 'es'}"


_SPEAKERS: dict[Figure, Callable[[HostFacts, ProgramFacts], Said]] = {
    "shm": _shm,
    "memory": _memory,
    "memory_kills": _memory_kills,
    "descriptors": _descriptors,
    "processes": _of_processes,
    "maps": _maps,
    "cpus": _cpus,
    "start_method": _start_method,
    "versions": _versions,
}
