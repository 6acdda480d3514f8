from __future__ import annotations

import pytest

from feedrate.host.cgroups import UNIFIED, own_groups, parse_memberships, parse_mounts
from feedrate.host.files import FakeReader

HYBRID_CGROUP = """\
9:name=systemd:/user.slice/session-2.scope
4:memory:/user.slice/session-2.scope
3:cpuset:/
1:cpu,cpuacct:/user.slice
0::/user.slice/session-2.scope
"""
HYBRID_MOUNTS = """\
22 27 0:21 / /proc rw,relatime - proc proc rw
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct
34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:11 master:2 - cgroup cgroup rw,memory
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw,nsdelegate
"""


def groups(controller: str, cgroup: str, mounts: str) -> list[str]:
    reader = FakeReader({"/proc/self/cgroup": cgroup, "/proc/self/mountinfo": mounts})
    return list(own_groups(reader, controller))


def test_memberships_by_controller() -> None:
    assert parse_memberships(HYBRID_CGROUP) == {
        "name=systemd": "/user.slice/session-2.scope",
        "memory": "/user.slice/session-2.scope",
        "cpuset": "/",
        "cpu": "/user.slice",
        "cpuacct": "/user.slice",
        UNIFIED: "/user.slice/session-2.scope",
    }
    assert parse_memberships("nonsense\n\n") == {}


def test_a_path_with_a_colon_is_kept_whole() -> None:
    assert parse_memberships("0::/app:1/x\n") == {UNIFIED: "/app:1/x"}


def test_mounts_with_optional_fields_and_escapes() -> None:
    text = "32 31 0:29 /a\\040b /mnt/c\\134d rw shared:9 master:1 - cgroup cgroup rw,cpu,cpuacct\n"
    (mount,) = parse_mounts(text + "broken line\n- cgroup cgroup rw,cpu\n")
    assert (mount.root, mount.point) == ("/a b", "/mnt/c\\d")
    assert {"cpu", "cpuacct"} <= mount.controllers


def test_every_group_up_to_the_mount() -> None:
    assert groups("memory", HYBRID_CGROUP, HYBRID_MOUNTS) == [
        "/sys/fs/cgroup/memory/user.slice/session-2.scope",
        "/sys/fs/cgroup/memory/user.slice",
        "/sys/fs/cgroup/memory",
    ]
    assert groups("cpuset", HYBRID_CGROUP, HYBRID_MOUNTS) == ["/sys/fs/cgroup/cpuset"]
    assert groups("cpu", HYBRID_CGROUP, HYBRID_MOUNTS)[0] == (
        "/sys/fs/cgroup/cpu,cpuacct/user.slice"
    )
    assert groups(UNIFIED, HYBRID_CGROUP, HYBRID_MOUNTS)[-1] == "/sys/fs/cgroup/unified"


@pytest.mark.parametrize(
    ("path", "root", "expected"),
    [
        pytest.param("/", "/", ["/cg"], id="own namespace"),
        pytest.param("/docker/ab", "/docker/ab", ["/cg"], id="mounted at its own group"),
        pytest.param("/docker/ab/in", "/docker/ab", ["/cg/in", "/cg"], id="group in a container"),
        pytest.param("/docker/abc", "/docker/ab", ["/cg"], id="a longer name is no descendant"),
        pytest.param("/", "/../..", ["/cg"], id="mount of an outer namespace"),
        pytest.param("/../other", "/", [], id="outside its namespace"),
    ],
)
def test_containers(path: str, root: str, expected: list[str]) -> None:
    mounts = f"30 25 0:27 {root} /cg ro,nosuid - cgroup2 cgroup rw\n"
    assert groups(UNIFIED, f"0::{path}\n", mounts) == expected


def test_of_two_mounts_the_one_that_shows_more_ancestors() -> None:
    mounts = (
        "30 25 0:27 /other /first rw - cgroup cgroup rw,memory\n"
        "31 25 0:27 /a/b /own rw - cgroup cgroup rw,memory\n"
        "32 25 0:27 / /host rw - cgroup cgroup rw,memory\n"
    )
    assert groups("memory", "4:memory:/a/b\n", mounts) == ["/host/a/b", "/host/a", "/host"]
    without_host = "\n".join(mounts.splitlines()[:2])
    assert groups("memory", "4:memory:/a/b\n", without_host) == ["/own"]


def test_nothing_where_nothing_is_mounted_or_known() -> None:
    assert list(own_groups(FakeReader({}), "memory")) == []
    assert groups("pids", HYBRID_CGROUP, HYBRID_MOUNTS) == []
    assert groups("memory", HYBRID_CGROUP, "") == []
