"""Shared memory: no room in it, no name in it, no leave to use it, too many mappings."""

from __future__ import annotations

from feedrate.doctor.entry import Entry

_TORCH_FILE = r"<?[/\\]?(?:dev/shm/)?torch_\w+>?"
_IN_SHM = (
    r"/dev/shm|multiprocessing[/\\](?:synchronize|heap|shared_memory)\.py|</?torch_\w"
    r"|'/?(?:psm|mp|sem)[_.-]"
)
_ROOM = (
    "enlarge /dev/shm: docker run --shm-size=8g (or --ipc=host), in Kubernetes an emptyDir with "
    "medium: Memory at /dev/shm"
)
_LESS = (
    "use fewer workers, a smaller prefetch_factor or a smaller batch: workers × prefetch_factor "
    "batches wait there at once"
)
_ARENA = "let feedrate.DataLoader carry the batches: its arena is not bounded by /dev/shm"
_LEFT = "remove what dead programs left there: ls -l /dev/shm"

ENTRIES = (
    Entry(
        name="shm-descriptors",
        code="crash.too_many_files",
        texts=(r"unable to (?:open|mmap|stat)[^\n]*Too many open files",),
        what="a shared-memory file of a batch cannot be opened: the process has as many files open "
        "as ulimit -n allows",
        why="every tensor that a worker hands over takes a descriptor in the main process for as "
        "long as it lives",
        remedies=(
            "raise ulimit -n",
            "do not keep batches or parts of them (del, or clone() what is kept)",
            "torch.multiprocessing.set_sharing_strategy('file_system')",
        ),
        figures=("descriptors",),
    ),
    Entry(
        name="shm-gone",
        code="crash.shm_name_gone",
        texts=(
            (
                r"unable to open shared memory object <[^>]*> in read-write mode(?!.*(?:Too many|"
                r"Permission|No space|Cannot allocate))"
            ),
            r"could not unlink the shared memory file",
            r"Couldn't open shared (?:file mapping|event): <[^>]*>, error code: <(?:0|2|6)>",
            r"No such file or directory: '/?(?:psm_|torch_|wnsm_)",
        ),
        what="a shared-memory file that should hold a tensor is no longer there",
        why="with the sharing strategy file_system tensors travel by the file's name, and somebody "
        "removed it: the clean-up of a process that has ended, or systemd-logind, which empties "
        "/dev/shm at a user's last logout (RemoveIPC=yes)",
        remedies=(
            (
                "use the default strategy, file_descriptor, with a higher ulimit -n, instead of "
                "set_sharing_strategy('file_system')"
            ),
            "loginctl enable-linger USER, or RemoveIPC=no, if it happens after logging out",
            (
                "let the workers live as long as their batches: keep the loader's iterator until "
                "the last one is used"
            ),
        ),
        figures=("descriptors", "shm"),
    ),
    Entry(
        name="shm-forbidden",
        code="crash.shm_forbidden",
        texts=(
            r"unable to open shared memory object <[^>]*>[^\n]*Permission denied",
            r"Permission denied: '?/dev/shm",
            r"\[Errno (?:13|38)\] (?:Permission denied|Function not implemented)",
        ),
        what="this process may not make files in shared memory (/dev/shm)",
        why="the container has no writable /dev/shm, or another user's file has the name",
        remedies=(
            "mount /dev/shm writable (mode 1777) into the container",
            "use num_workers=0 where that cannot be, or spawn no processes",
            _LEFT,
        ),
        figures=("shm",),
        near=r"shared memory object|/dev/shm|SemLock|multiprocessing[/\\]synchronize\.py",
    ),
    Entry(
        name="shm-full",
        code="crash.shm_exhausted",
        texts=(
            r"unable to (?:write to|resize|stretch|allocate shared memory\(shm\) for) file "
            + _TORCH_FILE,
            r"unable to open shared memory object <[^>]*>[^\n]*No space left",
            r"No space left on device: '?(?:/dev/shm|/?(?:torch|psm|mp|sem)[_.-])",
        ),
        what="shared memory (/dev/shm) is full: a batch found no room in it",
        why="workers hand batches over in files in /dev/shm, which in a container is 64 MiB unless "
        "it is asked for more",
        remedies=(_ROOM, _LESS, _ARENA, _LEFT),
        figures=("shm",),
    ),
    Entry(
        name="semaphores-full",
        code="crash.shm_exhausted",
        texts=(r"\[Errno 28\] No space left on device(?!: ')",),
        what="shared memory (/dev/shm) is full: not even a semaphore or a buffer found room in it",
        why="queues, locks and batches of worker processes all live in /dev/shm, which in a "
        "container is 64 MiB unless it is asked for more",
        remedies=(_ROOM, _LEFT, _LESS),
        figures=("shm",),
        near=_IN_SHM,
    ),
    Entry(
        name="disk-full",
        code="crash.disk_full",
        texts=(r"No space left on device", r"Disk quota exceeded", r"There is not enough space"),
        what="a disk is full, or the quota on it is used up",
        why="a checkpoint, a cache or a temporary file had no room; this is not /dev/shm",
        remedies=(
            "make room on the file system of the path that the traceback shows (df -h, df -i)",
            "send temporary files elsewhere: TMPDIR=/path/with/room",
        ),
        far=_IN_SHM + r"|unable to (?:write to|resize|allocate)",
        in_own_code=True,
    ),
    Entry(
        name="mappings-used-up",
        code="crash.map_limit",
        texts=(r"unable to mmap (?P<bytes>\d+) bytes from file[^\n]*Cannot allocate memory",),
        what="a tensor of {bytes} bytes could not be mapped: memory or the number of mappings that "
        "a process may have is used up",
        why="each shared tensor is a mapping of its own, and a process may have vm.max_map_count "
        "of them; the kernel says the same when memory itself is used up",
        remedies=(
            "do not keep batches or many small tensors alive; collate into a few large ones",
            "raise sysctl vm.max_map_count",
            "if memory is short: fewer workers, a smaller prefetch_factor or batch",
        ),
        figures=("maps", "memory"),
    ),
    Entry(
        name="shm-manager",
        code="crash.shm_manager",
        texts=(
            r"torch_shm_manager at|error executing torch_shm_manager|no response from torch_shm_",
            r"Shared memory manager (?:connection has timed out|didn't respond)",
        ),
        what="torch's helper for shared files (torch_shm_manager) did not start or does not answer",
        why="the sharing strategy file_system needs it: it cannot be executed, its libraries are "
        "not found, or it has no folder for its socket (TMPDIR)",
        remedies=(
            "use the default strategy: no set_sharing_strategy('file_system'), a higher ulimit -n",
            "see what it says when started by hand: the path stands in the message",
            "set TMPDIR to a folder that can be written to and whose path is short",
        ),
        figures=("descriptors", "versions"),
    ),
    Entry(
        name="windows-commit",
        code="crash.windows_commit",
        texts=(
            r"WinError 1455",
            r"paging file is too small",
            r"Couldn't open shared file mapping: <[^>]*>, error code: <(?:1455|1450|8)>",
        ),
        what="Windows has no memory left to promise: the page file (paging file) is too small for "
        "so many workers",
        why="each worker loads torch's and CUDA's libraries anew, and Windows reserves memory for "
        "them in RAM and page file whether it is used or not; it is not the data",
        remedies=(
            "lower num_workers: each worker takes gigabytes of commit before its first item",
            "enlarge the page file (System, Advanced, Performance, Virtual memory)",
        ),
        figures=("memory", "cpus"),
    ),
)
