"""Whether this process runs in a container, and of which kind."""

from __future__ import annotations

import re
from collections.abc import Mapping

from feedrate.host.files import ProcReader

_IN_GROUPS = re.compile(r"kubepods|docker|containerd|libpod|lxc|garden")
_KINDS = {
    "kubepods": "Kubernetes",
    "docker": "Docker",
    "containerd": "containerd",
    "libpod": "Podman",
    "lxc": "LXC",
    "garden": "Garden",
}


def container(reader: ProcReader, environ: Mapping[str, str]) -> str | None:
    """Return the kind of container that this process runs in, ``None`` where nothing tells of one.

    Read from what the container engines leave: their files, their variables, and the names of the
    control groups.
    """
    if "KUBERNETES_SERVICE_HOST" in environ:
        return "Kubernetes"
    for variable in ("APPTAINER_CONTAINER", "SINGULARITY_CONTAINER"):
        if environ.get(variable):
            return "Apptainer"
    for file, kind in (("/.dockerenv", "Docker"), ("/run/.containerenv", "Podman")):
        if reader.read(file) is not None:
            return kind
    named = (reader.read("/run/systemd/container") or environ.get("container", "")).strip()
    if named:
        return _KINDS.get(named, named)
    for file in ("/proc/1/cgroup", "/proc/self/cgroup"):
        found = _IN_GROUPS.search(reader.read(file) or "")
        if found is not None:
            return _KINDS[found[0]]
    return None
