from __future__ import annotations

from pathlib import Path

import pytest

from feedrate.host.files import FakeReader
from feedrate.host.storage import DataSize, Mount, data_size, parse_mountinfo, storage_under

MOUNTS = """\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 259:2 / / rw,relatime - ext4 /dev/nvme0n1p2 rw
31 27 8:1 / /slow rw - xfs /dev/sda1 rw
32 27 252:0 / /virtual rw - ext4 /dev/vda rw
33 27 8:17 / /cloud rw - ext4 /dev/sdb1 rw
34 27 0:40 / /net rw - nfs4 server:/export rw,vers=4.2
35 27 0:41 / /bucket\\040one ro - fuse.gcsfuse bucket ro
36 27 0:42 / /layers rw - overlay overlay rw,lowerdir=/a
37 27 0:43 / /dev/shm rw - tmpfs tmpfs rw
38 27 0:44 / /host rw - 9p C: rw
39 27 0:45 /@home /btrfs rw - btrfs /dev/nvme0n1p3 rw,subvol=/@home
40 27 254:3 / /lvm rw - ext4 /dev/mapper/vg-data rw
41 27 8:33 / /silent rw - ext4 /dev/sdc1 rw
42 34 0:50 / /net/covered rw - nfs4 server:/old rw
43 34 0:51 / /net/covered rw - tmpfs tmpfs rw
44 27 0:52 / /zfs rw - zfs tank/data rw
"""
FILES = {
    "/proc/self/mountinfo": MOUNTS,
    "/sys/dev/block/259:2/../queue/rotational": "0\n",
    "/sys/dev/block/8:1/../queue/rotational": "1\n",
    "/sys/dev/block/8:1/../device/model": "ST4000DM004-2CV1\n",
    "/sys/dev/block/252:0/queue/rotational": "1\n",
    "/sys/dev/block/8:17/../queue/rotational": "1\n",
    "/sys/dev/block/8:17/../device/model": "PersistentDisk  \n",
    "/sys/class/block/nvme0n1p3/../queue/rotational": "0\n",
    "/sys/dev/block/254:3/queue/rotational": "1\n",
}


@pytest.mark.parametrize(
    ("path", "kind", "filesystem"),
    [
        ("/some/where", "solid state disk", "ext4"),
        ("/slow/data", "spinning disk", "xfs"),
        ("/slower", "solid state disk", "ext4"),
        ("/virtual", "virtual disk", "ext4"),
        ("/cloud/x", "virtual disk", "ext4"),
        ("/net/x", "network storage", "nfs4"),
        ("/net/covered/x", "memory", "tmpfs"),
        ("/bucket one/x", "network storage", "fuse.gcsfuse"),
        ("/layers/x", "container layer", "overlay"),
        ("/dev/shm/x", "memory", "tmpfs"),
        ("/host/x", "share of the host", "9p"),
        ("/btrfs/x", "solid state disk", "btrfs"),
        ("/lvm/x", "spinning disk", "ext4"),
        ("/silent/x", "disk", "ext4"),
        ("/zfs/x", "unknown", "zfs"),
    ],
)
def test_what_lies_under_a_path(path: str, kind: str, filesystem: str) -> None:
    storage = storage_under(path, FakeReader(FILES))
    assert (storage.place, storage.kind, storage.filesystem) == (path, kind, filesystem)


def test_where_the_platform_does_not_tell() -> None:
    assert storage_under(".", FakeReader({})).kind == "unknown"


def test_mounts_are_read_and_what_is_none_is_passed_over() -> None:
    text = "30 25 0:27 /a /b\\040c rw - ext4 /dev/x rw\nnonsense\n\n1 2 3 - x\n"
    assert parse_mountinfo(text) == (Mount("/b c", "0:27", "ext4", "/dev/x"),)


def test_the_size_of_files_below_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one").write_bytes(b"x" * 1000)
    (tmp_path / "two").write_bytes(b"x" * 24)
    (tmp_path / "a" / "round").symlink_to(tmp_path)  # not followed, or it would never end
    (tmp_path / "link").symlink_to(tmp_path / "two")  # a file by another name is read again
    (tmp_path / "broken").symlink_to(tmp_path / "none")
    assert data_size(str(tmp_path)) == DataSize(1048, 3)
    assert data_size(str(tmp_path / "two")) == DataSize(24, 1)


def test_counting_ends_when_its_time_is_over(tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / str(number)).write_bytes(b"x")
    seconds = iter([0.0, 0.5, 2.0])
    assert data_size(str(tmp_path), clock=lambda: next(seconds)) == DataSize(256, 256, whole=False)
    late = iter([0.0, 2.0])
    assert data_size(str(tmp_path), clock=lambda: next(late)) == DataSize(0, 0, whole=False)
