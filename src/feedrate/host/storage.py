"""What kind of storage lies under a path, and how much is in it."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from feedrate.host.cgroups import unescape
from feedrate.host.files import ProcReader

StorageKind = Literal[
    "solid state disk",
    "spinning disk",
    "virtual disk",
    "disk",
    "network storage",
    "share of the host",
    "memory",
    "container layer",
    "unknown",
]
_NETWORK = frozenset(
    (
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "lustre", "gpfs", "beegfs", "ceph", "glusterfs"),
        *("afs", "orangefs", "pvfs2", "ocfs2", "gfs2", "panfs", "wekafs", "fuse.glusterfs"),
        *("fuse.ceph-fuse", "fuse.sshfs", "fuse.s3fs", "fuse.gcsfuse", "fuse.goofys"),
        *("fuse.rclone", "fuse.juicefs", "fuse.blobfuse", "fuse.blobfuse2", "fuse.mount-s3"),
        *("fuse.geesefs", "fuse.alluxio-fuse", "fuse.cvmfs2"),
    )
)
_OF_THE_HOST = frozenset(("9p", "virtiofs", "drvfs", "vboxsf", "prl_fs", "fuse.vmhgfs-fuse"))
_IN_MEMORY = frozenset(("tmpfs", "ramfs"))
_LAYERS = frozenset(("overlay", "aufs", "fuse.fuse-overlayfs"))
# Disks of virtual machines commonly say that they spin, whatever lies below them.
_VIRTUAL = re.compile(r"/dev/(?:vd|xvd)|virtual|qemu|vbox|persistentdisk|msft", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Mount:
    """A mounted file system: its folder, "major:minor" of its device, its type and its source."""

    point: str
    device: str
    filesystem: str
    source: str


@dataclass(frozen=True, slots=True)
class Storage:
    """The storage under ``place``, which is as the user named it ("." for the working directory).

    ``filesystem`` is its type as the kernel calls it, "" where that is not told.
    """

    place: str
    kind: StorageKind
    filesystem: str = ""


@dataclass(frozen=True, slots=True)
class DataSize:
    """The files below a path: bytes, how many, and whether all of them were counted."""

    bytes: int
    files: int
    whole: bool = True


def parse_mountinfo(text: str) -> tuple[Mount, ...]:
    """Return what ``/proc/self/mountinfo`` lists, in its order."""
    mounts = []
    for line in text.splitlines():
        fields, _, tail = line.partition(" - ")
        parts, kinds = fields.split(" "), tail.split(" ")
        if len(parts) >= 5 and len(kinds) >= 2:
            mounts.append(Mount(unescape(parts[4]), parts[2], kinds[0], unescape(kinds[1])))
    return tuple(mounts)


def storage_under(path: str, reader: ProcReader) -> Storage:
    """Return what lies under a path; of kind "unknown" where the platform does not tell."""
    real = os.path.realpath(path)
    mounts = parse_mountinfo(reader.read("/proc/self/mountinfo") or "")
    # of those at the same place, the last covers the others
    mount = max(
        (mount for mount in reversed(mounts) if _is_below(real, mount.point)),
        key=lambda mount: len(mount.point.rstrip("/")),
        default=None,
    )
    if mount is None:
        return Storage(path, "unknown")
    return Storage(path, _kind(mount, reader), mount.filesystem)


def data_size(
    path: str, *, seconds: float = 1.0, clock: Callable[[], float] = time.monotonic
) -> DataSize:
    """Return the size of a file, or of all files below a folder that ``seconds`` suffice to count.

    Links to folders below it are not followed.
    """
    if Path(path).is_file():
        return DataSize(Path(path).stat().st_size, 1)
    until = clock() + seconds
    size = files = 0
    folders = [path]
    while folders:
        if clock() > until:
            return DataSize(size, files, whole=False)
        with contextlib.suppress(OSError), os.scandir(folders.pop()) as entries:
            for number, entry in enumerate(entries, 1):
                with contextlib.suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    elif entry.is_file():
                        size += entry.stat().st_size
                        files += 1
                if number % 256 == 0 and clock() > until:
                    return DataSize(size, files, whole=False)
    return DataSize(size, files)


def _is_below(path: str, point: str) -> bool:
    return path == point or path.startswith(point.rstrip("/") + "/")


def _kind(mount: Mount, reader: ProcReader) -> StorageKind:
    for kind, filesystems in _KINDS:
        if mount.filesystem in filesystems:
            return kind
    return _disk(mount, reader)


def _disk(mount: Mount, reader: ProcReader) -> StorageKind:
    # btrfs and others number no device of their own; a partition's queue is its disk's
    name = mount.source.rpartition("/")[2]
    for place in (f"/sys/dev/block/{mount.device}", f"/sys/class/block/{name}"):
        for disk in (place, f"{place}/.."):
            spins = (reader.read(f"{disk}/queue/rotational") or "").strip()
            if spins == "0":
                return "solid state disk"
            if spins == "1":
                model = reader.read(f"{disk}/device/model") or ""
                vendor = reader.read(f"{disk}/device/vendor") or ""
                virtual = _VIRTUAL.search(f"{mount.source} {model} {vendor}")
                return "virtual disk" if virtual else "spinning disk"
    return "disk" if mount.source.startswith("/dev/") else "unknown"


_KINDS: tuple[tuple[StorageKind, frozenset[str]], ...] = (
    ("network storage", _NETWORK),
    ("share of the host", _OF_THE_HOST),
    ("memory", _IN_MEMORY),
    ("container layer", _LAYERS),
)
