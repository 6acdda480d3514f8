"""Checks of what is installed: versions that do not fit, known faults, and how workers start."""

from __future__ import annotations

from dataclasses import dataclass

from feedrate.doctor.checks import Check, DoctorFacts
from feedrate.doctor.package_versions import Release, meets, release
from feedrate.records import Finding, Severity


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault in the releases of a package from ``first`` on, up to ``fixed``, which has it not.

    ``beside`` is a package without which it does not matter. It is a warning where whoever has that
    version meets it.
    """

    package: str
    first: Release
    fixed: Release
    title: str
    why: str
    beside: str = ""
    severity: Severity = "info"


# Only what a public issue tells the releases of.
FAULTS = (
    # pytorch/vision#9307: python/cpython#142214, mended in 3.14.2.
    Fault(
        "Python",
        (3, 14, 1),
        (3, 14, 2),
        "breaks the import of torchvision",
        "a regression of that one release makes dataclasses like torchvision's weights fail: "
        "AttributeError: 'wrapper_descriptor' object has no attribute '__annotate__'",
        beside="torchvision",
        severity="warning",
    ),
    # pytorch/vision#8710: the fix, #8712, missed 0.20.1 and came with 0.21.
    Fault(
        "torchvision",
        (0, 20),
        (0, 21),
        "decodes WebP images with a leak",
        "decode_webp and decode_image keep the memory of every WebP image that they have decoded, "
        "so that workers grow until they are killed; other formats are not concerned",
    ),
)


def _match(facts: DoctorFacts) -> Finding | None:
    software = facts.machine.software
    if software.torch is None:
        return Finding(
            code="setup.versions",
            severity="warning",
            title="torch is not installed in this Python",
            why="feedrate measures with the torch of the Python that it is installed in",
            remedy="install feedrate where training runs: python -m pip install feedrate",
        )
    wanted = software.torchvision_needs
    if wanted is None or meets(software.torch, wanted) is not False:
        return None
    exact = wanted.removeprefix("==") if wanted.startswith("==") else None
    return Finding(
        code="setup.versions",
        severity="warning",
        title=(
            f"torchvision {software.torchvision} asks for torch {wanted}, and {software.torch} is "
            "installed"
        ),
        why=(
            "its compiled operators belong to one release of torch: import torchvision fails, or "
            "'operator torchvision::nms does not exist' is raised"
        ),
        remedy=(
            "install both in one command, so that they are chosen together: pip install -U torch "
            "torchvision" + (f"; or pip install torch=={exact}" if exact is not None else "")
        ),
    )


def _match_seen(facts: DoctorFacts) -> str:
    software = facts.machine.software
    parts = [f"torch {software.torch}"]
    if software.build is not None:
        parts.append(f"built for {software.build}")
    if software.torchvision is not None:
        parts.append(f"torchvision {software.torchvision}")
    return ", ".join(parts)


def _faults(facts: DoctorFacts) -> Finding | None:
    software = facts.machine.software
    installed = {"Python": software.python, "torchvision": software.torchvision}
    for fault in FAULTS:
        version = installed[fault.package]
        if version is None or (fault.beside and installed[fault.beside] is None):
            continue
        if fault.first <= release(version) < fault.fixed:
            return Finding(
                code="setup.known_fault",
                severity=fault.severity,
                title=f"{fault.package} {version} {fault.title}",
                why=fault.why,
                remedy=f"upgrade to {fault.package} {'.'.join(map(str, fault.fixed))} or later",
            )
    return None


def _start(facts: DoctorFacts) -> Finding | None:
    host = facts.machine.host
    if host.start_method != "forkserver":
        return None
    return Finding(
        code="start_method",
        severity="info",
        title=(
            f"Python {host.python_version} starts workers by forkserver, where earlier ones forked"
        ),
        why=(
            "the dataset is pickled and sent to every worker, which has its own copy and imports "
            "torch again; lambdas, open files and local classes in it cannot be sent, and a script "
            'needs if __name__ == "__main__":'
        ),
        remedy=(
            'mend what cannot be pickled; DataLoader(multiprocessing_context="fork") has the '
            "earlier way, as long as no thread or device is in use before workers start"
        ),
    )


_SEEN = {
    "fork": "workers are forked: copies of the main process that share its memory until it is "
    "written to",
    "spawn": "workers are spawned: the dataset is pickled for each of them, each imports torch "
    'again, and a script needs if __name__ == "__main__":',
}


def _start_seen(facts: DoctorFacts) -> str:
    host = facts.machine.host
    return f"Python {host.python_version}: {_SEEN.get(host.start_method, host.start_method)}"


def _nothing(_: DoctorFacts) -> None:
    return None


def _container_seen(facts: DoctorFacts) -> str:
    kind = facts.machine.container
    return f"this runs in a container ({kind})" if kind is not None else "this runs in no container"


CHECKS = (
    Check("versions", _match, _match_seen),
    Check(
        "known faults",
        _faults,
        lambda facts: "none is known of these versions" if facts.machine.software.torch else "",
    ),
    Check("start method", _start, _start_seen),
    Check("container", _nothing, _container_seen),
)
