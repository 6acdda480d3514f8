"""What doctor knows of the machine: figures only, nothing that names it, and no judgement."""

from __future__ import annotations

import msgspec

from feedrate.doctor.facts import HostFacts
from feedrate.host.gpus import Gpus
from feedrate.host.storage import DataSize, Storage


class CpuFacts(msgspec.Struct, frozen=True, kw_only=True):
    """CPUs by every count that programs go by.

    ``logical`` is ``os.cpu_count()``, ``affinity`` what this process may run on, which is also what
    torch suggests at most. ``usable`` is the least of all limits and ``limited_by`` its name, as in
    `feedrate.host.limits.CpuLimit`; ``quota`` and ``cpuset`` are the control groups' own,
    ``online`` the machine's. ``None`` is no limit, or not told. ``ranks`` training processes share
    what is usable.
    """

    logical: int
    affinity: int
    usable: float
    limited_by: str
    quota: float | None = None
    cpuset: int | None = None
    online: int | None = None
    ranks: int = 1


class SoftwareFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Installed versions, none of them imported.

    ``build`` is what torch was built for: "cpu", "cuda 12.4", "rocm 6.2"; ``None`` where that is
    not told. ``torchvision_needs`` is what torchvision's own metadata asks of torch.
    ``cuda_compat`` tells that libraries are there which let an older driver run a newer CUDA.
    ``gnu_openmp`` tells that torch brings GNU's OpenMP along, ``None`` where that is not told.
    """

    python: str
    torch: str | None = None
    torchvision: str | None = None
    build: str | None = None
    torchvision_needs: str | None = None
    cuda_compat: bool = False
    gnu_openmp: bool | None = None


class MachineFacts(msgspec.Struct, frozen=True, kw_only=True):
    """This machine, this process's limits on it, and what is installed.

    ``group_kills`` counts what was killed for memory in this process's own control group, ``None``
    where that group does not count. ``environment`` has those variables that steer threads and
    devices. ``container`` is the kind of container, ``None`` outside of one. ``storage`` is what
    lies under the data where a path was named, and ``data_size`` how much that is; else under the
    working directory.
    """

    host: HostFacts
    cpus: CpuFacts
    software: SoftwareFacts
    gpus: Gpus
    group_kills: int | None = None
    container: str | None = None
    environment: dict[str, str] = {}
    storage: Storage | None = None
    data_size: DataSize | None = None
