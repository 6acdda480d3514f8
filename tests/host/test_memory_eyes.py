from __future__ import annotations

import mmap

from feedrate.host.files import FakeReader
from feedrate.host.limits import ShmSpace
from feedrate.host.memory_eyes import MemoryEyes, parse_open_files

LIMITS = """\
Limit                     Soft Limit           Hard Limit           Units
Max open files            256                  1048576              files
Max locked memory         8388608              8388608              bytes
"""
MEMINFO = """\
MemTotal:       16000000 kB
MemAvailable:    8000000 kB
Cached:           500000 kB
"""


def rollup(anonymous: int, swap: int = 0) -> str:
    return (
        "55d0-7ffe ---p 00000000 00:00 0 [rollup]\n"
        f"Rss: {anonymous + 100} kB\nPss: {anonymous + 50} kB\nPrivate_Clean: 10 kB\n"
        f"Private_Dirty: {anonymous} kB\nShared_Dirty: 3 kB\nAnonymous: {anonymous} kB\n"
        f"Swap: {swap} kB\n"
    )


def status(anonymous: int) -> str:
    return (
        f"Name:\tpython\nVmSize:\t9000 kB\nVmRSS:\t{anonymous + 100} kB\n"
        f"RssAnon:\t{anonymous} kB\nRssFile:\t90 kB\nRssShmem:\t7 kB\nVmSwap:\t5 kB\n"
        "Threads:\t3\n"
    )


def tree(*, children: str = "2 3 4") -> FakeReader:
    files = {
        "/proc/1/task/1/children": children,
        "/proc/1/smaps_rollup": rollup(1000),
        "/proc/1/stat": "1 (python) S 0 1 1 0 -1 0 0 0 0 0 1 1 0 0 20 0 1 0 0 0 0",
        "/proc/1/status": status(1000),
        "/proc/1/fd/0": "",
        "/proc/1/fd/1": "",
        "/proc/1/limits": LIMITS,
        "/proc/1/cmdline": "python\0train.py\0",
        "/proc/meminfo": MEMINFO,
        "/dev/shm/torch_1_2_3": "",
    }
    for pid in (2, 3, 4):
        files |= {
            f"/proc/{pid}/smaps_rollup": rollup(100 * pid, swap=8),
            f"/proc/{pid}/status": status(100 * pid),
            f"/proc/{pid}/stat": f"{pid} (python) S 1 1 1 0 -1 0 0 0 0 0 1 1 0 0 20 0 1 0 0 0 0",
            f"/proc/{pid}/task/{pid}/children": "",
            f"/proc/{pid}/cmdline": "python\0train.py\0",
            f"/proc/{pid}/limits": LIMITS,
        }
    return FakeReader(files)


def eyes(reader: FakeReader) -> MemoryEyes:
    return MemoryEyes(1, reader, lambda: ShmSpace(total=64, free=24))


def test_a_look_reads_the_main_process_its_workers_and_the_machine() -> None:
    look = eyes(tree()).look(at=1.5, epoch=2, items=30, own=None)
    assert look is not None
    assert (look.at, look.epoch, look.items, look.phase) == (1.5, 2, 30, 0.0)
    assert look.main.memory.anonymous == 1000 * 1024
    assert look.main.memory.uss == 1010 * 1024
    assert (look.main.descriptors, look.main.threads, look.main.virtual) == (2, 3, 9000 * 1024)
    assert [each.pid for each in look.workers] == [2, 3, 4]
    assert look.workers[0].swapped == 8 * 1024
    assert (look.shm_bytes, look.shm_files) == (40, 1)
    assert (look.page_cache, look.available) == (500000 * 1024, 8000000 * 1024)


def test_a_quick_look_reads_counters_alone() -> None:
    reader = tree()
    for pid in (1, 2, 3, 4):
        del reader.files[f"/proc/{pid}/smaps_rollup"]
    look = eyes(reader).look(at=0.0, epoch=0, items=0, own=None, whole=False)
    assert look is not None
    assert (look.main.memory.rss, look.main.memory.anonymous) == (1100 * 1024, 1000 * 1024)
    assert look.main.memory.pss is None
    assert (look.main.swapped, look.main.shmem, look.main.threads) == (5 * 1024, 7 * 1024, 3)
    assert [each.memory.anonymous for each in look.workers] == [n * 102400 for n in (2, 3, 4)]


def test_counters_that_are_kept_roughly_make_every_look_a_whole_one() -> None:
    reader = tree()
    reader.files["/proc/1/status"] = status(1000 + 65)
    sight = eyes(reader)
    sight.look(at=0.0, epoch=0, items=0, own=None)
    look = sight.look(at=0.0, epoch=0, items=0, own=None, whole=False)
    assert look is not None
    assert look.main.memory.anonymous == 1000 * 1024
    assert look.main.memory.pss is not None


def test_without_counters_every_look_is_whole() -> None:
    reader = tree()
    del reader.files["/proc/1/status"]
    look = eyes(reader).look(at=0.0, epoch=0, items=0, own=None, whole=False)
    assert look is not None
    assert look.main.memory.pss is not None
    assert (look.main.virtual, look.main.threads) == (None, None)


def test_workers_of_other_loaders_are_told_apart() -> None:
    look = eyes(tree()).look(at=0.0, epoch=0, items=0, own=(2, 4))
    assert look is not None
    assert [each.pid for each in look.workers] == [2, 4]
    assert [each.pid for each in look.others] == [3]


def test_a_main_process_that_is_gone_is_no_look() -> None:
    reader = tree()
    reader.files["/proc/1/stat"] = "1 (python) Z 0 1 1 0 -1 0 0 0 0 0 1 1 0 0 20 0 1 0 0 0 0"
    assert eyes(reader).look(at=0.0, epoch=0, items=0, own=None) is None


def test_a_worker_that_ends_meanwhile_is_left_out() -> None:
    reader = tree()
    reader.files["/proc/3/smaps_rollup"] = ""
    reader.files["/proc/3/stat"] = "3 (python) Z 1 1 1 0 -1 0 0 0 0 0 1 1 0 0 20 0 1 0 0 0 0"
    look = eyes(reader).look(at=0.0, epoch=0, items=0, own=None)
    assert look is not None
    assert [each.pid for each in look.workers] == [2, 4]


def test_what_is_left_is_told_with_the_limits_of_each_process() -> None:
    sight = eyes(tree())
    look = sight.look(at=0.0, epoch=0, items=0, own=None)
    assert look is not None
    room = sight.room(look, 7)
    assert (room.memory, room.memory_source) == (8000000 * 1024, "available memory")
    assert (room.shm, room.device) == (24, 7)
    assert (room.main_descriptors, room.worker_descriptors) == (256, 256)


def test_limits_that_are_not_there_or_have_no_number() -> None:
    assert parse_open_files("") is None
    assert parse_open_files("Max open files   unlimited   unlimited   files") is None


def test_one_worker_alone_is_looked_into() -> None:
    sight = eyes(tree())
    look = sight.look(at=0.0, epoch=0, items=0, own=(3, 4), whole=False, one_worker=True)
    assert look is not None
    assert [(each.pid, each.memory.pss is not None) for each in look.workers] == [
        (3, True),
        (4, False),
    ]
    assert (look.main.memory.pss, look.others[0].memory.pss) == (None, None)


def test_without_known_workers_it_is_the_first_that_is_found() -> None:
    sight = eyes(tree())
    look = sight.look(at=0.0, epoch=0, items=0, own=None, whole=False, one_worker=True)
    assert look is not None
    assert [each.memory.pss is not None for each in look.workers] == [True, False, False]


def test_a_known_worker_that_has_ended_is_left_out() -> None:
    reader = tree(children="2 3")
    reader.files["/proc/3/status"] = "Name:\tpython\nState:\tZ (zombie)\nThreads:\t1\n"
    look = eyes(reader).look(at=0.0, epoch=0, items=0, own=(2, 3), whole=False)
    assert look is not None
    assert [each.pid for each in look.workers] == [2]


def test_a_kernel_that_may_count_roughly_is_checked_at_the_first_look() -> None:
    for release, is_checked in (("6.1.0", False), ("6.8.0-31-generic", True), ("6.16.1", False)):
        reader = tree()
        reader.files["/proc/sys/kernel/osrelease"] = release
        sight = eyes(reader)
        looks = [sight.look(at=0.0, epoch=0, items=0, own=None, whole=False) for _ in range(2)]
        whole = [look.main.memory.pss is not None for look in looks if look is not None]
        assert whole == [is_checked, False]


def test_such_a_kernel_that_does_so_makes_the_first_look_whole_already() -> None:
    reader = tree()
    reader.files["/proc/sys/kernel/osrelease"] = "6.8.0"
    reader.files["/proc/1/status"] = status(1000 + 65)
    look = eyes(reader).look(at=0.0, epoch=0, items=0, own=None, whole=False)
    assert look is not None
    assert [each.memory.pss is not None for each in (look.main, *look.workers)] == [True] * 4


def test_processes_of_others_that_stay_are_looked_into_once() -> None:
    sight = eyes(tree())
    looks = [sight.look(at=0.0, epoch=0, items=0, own=(2,), whole=False) for _ in range(4)]
    seen = [[each.memory.uss is not None for each in look.others] for look in looks if look]
    assert seen == [[False, False], [True, False], [False, True], [False, False]]


def test_where_pages_may_not_be_read_whole_looks_tell_the_counters_as_quick_ones_do() -> None:
    reader = tree()
    for pid in (1, 2, 3, 4):
        del reader.files[f"/proc/{pid}/smaps_rollup"]
    sight = eyes(reader)
    looks = [sight.look(at=0.0, epoch=0, items=0, own=None, whole=deep) for deep in (True, False)]
    processes = [(look.main, *look.workers) for look in looks if look]
    whole, quick = ([(each.memory, each.swapped) for each in every] for every in processes)
    assert whole == quick
    assert [memory.anonymous for memory, _ in whole] == [n * 1024 for n in (1000, 200, 300, 400)]


POOL = "/env/bin/python\0/torch/_inductor/compile_worker/__main__.py\0--workers=32\0"


def test_whole_looks_tell_how_many_pages_were_touched() -> None:
    reader = tree()
    reader.files["/proc/2/stat"] = "2 (python) S 1 1 1 0 -1 0 70 0 0 0 1 1 0 0 20 0 1 0 0 0 0"
    for whole, touched in ((True, 70 * mmap.PAGESIZE), (False, None)):
        look = eyes(reader).look(at=0.0, epoch=0, items=0, own=(2, 3, 4), whole=whole)
        assert look is not None
        assert look.workers[0].touched == touched


def test_other_programs_are_told_by_name_and_not_looked_into() -> None:
    reader = tree()
    reader.files["/proc/3/cmdline"] = POOL
    sight = eyes(reader)
    looks = [sight.look(at=0.0, epoch=0, items=0, own=(2,), whole=False) for _ in range(3)]
    seen = [
        [(each.pid, each.program, each.memory.uss is not None) for each in look.others]
        for look in looks
        if look
    ]
    pool = (3, "compile_worker", False)
    assert seen == [[pool, (4, None, False)], [pool, (4, None, True)], [pool, (4, None, False)]]
    assert all(each.program is None for look in looks if look for each in look.workers)
