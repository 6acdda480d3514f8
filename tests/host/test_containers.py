from __future__ import annotations

import pytest

from feedrate.host.containers import container
from feedrate.host.files import FakeReader


@pytest.mark.parametrize(
    ("files", "environ", "kind"),
    [
        ({}, {}, None),
        ({"/proc/1/cgroup": "0::/init.scope\n"}, {}, None),
        ({"/proc/self/cgroup": "0::/user.slice/user-1000.slice/session-2.scope\n"}, {}, None),
        ({"/.dockerenv": ""}, {}, "Docker"),
        ({"/run/.containerenv": ""}, {}, "Podman"),
        ({"/.dockerenv": ""}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "Kubernetes"),
        ({}, {"APPTAINER_CONTAINER": "/x.sif"}, "Apptainer"),
        ({}, {"SINGULARITY_CONTAINER": "/x.sif"}, "Apptainer"),
        ({}, {"container": "lxc"}, "LXC"),
        ({"/run/systemd/container": "systemd-nspawn\n"}, {}, "systemd-nspawn"),
        ({"/proc/1/cgroup": "3:cpu:/docker/abc\n"}, {}, "Docker"),
        ({"/proc/1/cgroup": "3:cpu:/kubepods/burstable/pod1/abc\n"}, {}, "Kubernetes"),
    ],
)
def test_containers_by_what_they_leave(
    files: dict[str, str], environ: dict[str, str], kind: str | None
) -> None:
    assert container(FakeReader(files), environ) == kind
