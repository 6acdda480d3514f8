"""Where this process's control groups are, in versions 1 and 2, inside a container or out.

``/proc/self/cgroup`` names the process's group in each hierarchy, ``/proc/self/mountinfo`` where
the hierarchies are mounted and which group is each mount's root: a container's mounts commonly
begin at its own group (see cgroups(7) and proc_pid_mountinfo(5)).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from feedrate.host.files import ProcReader

UNIFIED = ""
"""The name of version 2's single hierarchy, among version 1's controller names."""


@dataclass(frozen=True, slots=True)
class CgroupMount:
    """A mounted hierarchy: the directory, the group at its top, and the controllers in it."""

    point: str
    root: str
    controllers: frozenset[str]


def parse_memberships(text: str) -> dict[str, str]:
    """Return the path of the process's group for each controller of ``/proc/PID/cgroup``."""
    groups: dict[str, str] = {}
    for line in text.splitlines():
        controllers, colon, path = line.partition(":")[2].partition(":")
        if colon:
            groups.update(dict.fromkeys(controllers.split(","), path))
    return groups


def parse_mounts(text: str) -> tuple[CgroupMount, ...]:
    """Return the control group hierarchies in a ``mountinfo`` text, in its order."""
    mounts = []
    for line in text.splitlines():
        fields, _, tail = line.partition(" - ")
        parts, kind = fields.split(" "), tail.split(" ")
        if len(parts) < 5 or kind[0] not in ("cgroup", "cgroup2"):
            continue
        controllers = [UNIFIED] if kind[0] == "cgroup2" else kind[-1].split(",")
        mounts.append(CgroupMount(unescape(parts[4]), unescape(parts[3]), frozenset(controllers)))
    return tuple(mounts)


def own_groups(reader: ProcReader, controller: str) -> Iterator[str]:
    """Yield the directory of the process's own group, then each ancestor's up to the mount's root.

    Args:
        reader: the files' source.
        controller: a controller of version 1, such as "memory", or `UNIFIED`.

    Yields nothing where the hierarchy is not mounted or the process is outside what is visible.
    """
    path = parse_memberships(reader.read("/proc/self/cgroup") or "").get(controller)
    if path is None or path.startswith("/.."):
        return
    candidates = [
        (below is not None, below or "", mount.point.rstrip("/"))
        for mount in parse_mounts(reader.read("/proc/self/mountinfo") or "")
        if controller in mount.controllers
        for below in (_below(path, mount.root),)
    ]
    if not candidates:
        return
    # The longest way up sees the most limits. A mount whose root does not contain the group (the
    # names come from another namespace) still begins at the group or above it.
    _, below, point = max(candidates, key=lambda found: (found[0], len(found[1])))
    names = below.split("/") if below else []
    for depth in range(len(names), -1, -1):
        yield "/".join([point, *names[:depth]])


def _below(path: str, root: str) -> str | None:
    root = root.rstrip("/")
    if path != root and not path.startswith(root + "/"):
        return None
    return path[len(root) :].strip("/")


def unescape(path: str) -> str:
    """Return a path of ``mountinfo`` with its blanks, which the kernel writes as octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), path)
