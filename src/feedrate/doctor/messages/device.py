"""Accelerators in worker processes, and pinned memory on the way to them."""

from __future__ import annotations

from feedrate.doctor.entry import Entry

_CPU_ITEMS = (
    "return CPU tensors from the dataset, transforms and collate_fn, and move the batch to the "
    "device in the training loop"
)
_SPAWN = "multiprocessing_context='spawn' (or 'forkserver') for this loader, which starts afresh"

ENTRIES = (
    Entry(
        name="cuda-after-fork",
        code="crash.cuda_in_worker",
        texts=(r"Cannot re-initialize (?P<device>\w+) in forked subprocess",),
        what="a forked worker used {device}, which the main process had set up before",
        why="a driver's state does not survive a fork: the worker has a copy that does not work",
        remedies=(
            _CPU_ITEMS,
            _SPAWN,
            (
                "if nothing in the worker should need it: look for torch.cuda calls and "
                "set_default_device at import"
            ),
        ),
        figures=("start_method",),
        in_own_code=True,
    ),
    Entry(
        name="cuda-initialization",
        code="crash.cuda_in_worker",
        texts=(
            r"CUDA error: initialization error",
            r"cuda runtime error \(3\)",
            r"CUDA error \(3\): initialization error",
            r"error=3 : initialization error",
        ),
        what="CUDA could not be set up in this process, as in a worker that was forked after the "
        "main process had used it",
        why="a driver's state does not survive a fork; a dataset, transform or collate_fn that "
        "makes or holds CUDA tensors runs in the worker",
        remedies=(
            _CPU_ITEMS,
            _SPAWN,
            "outside of workers: the driver and this torch do not fit (nvidia-smi)",
        ),
        figures=("start_method", "versions"),
        in_own_code=True,
    ),
    Entry(
        name="cuda-tensor-shared",
        code="crash.cuda_in_worker",
        texts=(
            r"Producer process has been terminated before all shared CUDA tensors released",
            r"Attempted to send CUDA tensor received from another process",
            r"Cannot pickle CUDA storage",
            r"invalid resource handle",
            r"rebuild_cuda_tensor",
        ),
        what="workers hand CUDA tensors to the main process, and these did not survive it",
        why="a CUDA tensor of a worker lives only while that worker does, and its memory is not "
        "given back before the main process lets go of it",
        remedies=(_CPU_ITEMS, "num_workers=0 where the items have to be made on the device"),
        figures=("start_method",),
    ),
    Entry(
        name="device-number",
        code="crash.invalid_device",
        texts=(r"invalid device ordinal", r"Invalid device id", r"device_id=\d+ .*is not valid"),
        what="a device number was used that this process does not see",
        why="it sees fewer devices than the code counts: CUDA_VISIBLE_DEVICES, more ranks than "
        "GPUs, or a number kept from another machine (in a checkpoint, say)",
        remedies=(
            "use as many ranks a host as it has GPUs (nproc_per_node)",
            "choose the device by LOCAL_RANK, and load checkpoints with map_location",
            "in a worker: do not choose a device at all",
        ),
        figures=("versions",),
        in_own_code=True,
    ),
    Entry(
        name="no-device",
        code="crash.no_device",
        texts=(
            r"No CUDA GPUs are available",
            r"Found no NVIDIA driver on your system",
            r"Torch not compiled with \w+ enabled",
            r"no CUDA-capable device is detected",
            r"Attempting to deserialize object on a CUDA device but torch\.cuda\.is_available",
        ),
        what="no accelerator can be used in this process",
        why="there is none, its driver is missing or not visible in the container, or this torch "
        "was built without support for it",
        remedies=(
            "see whether nvidia-smi works here, and start the container with --gpus all",
            "install the torch build that fits the driver",
            "load with map_location='cpu' what was saved on a device",
        ),
        figures=("versions",),
    ),
    Entry(
        name="cannot-pin",
        code="crash.cannot_pin",
        texts=(
            r"cannot pin '(?P<kind>[^']+)'",
            r"[Oo]nly dense CPU tensors can be pinned",
            r"Need to provide pin_memory allocator to use pin memory",
        ),
        what="pin_memory=True met a tensor that cannot be pinned ({kind})",
        why="only dense tensors in the host's memory can be pinned; this one is already on the "
        "device, or sparse",
        remedies=(
            _CPU_ITEMS,
            "pin_memory=False for this loader",
            "to_dense() or a class with its own pin_memory() for sparse tensors",
        ),
    ),
    Entry(
        name="device-assert",
        code="crash.device_assert",
        texts=(r"device-side assert triggered",),
        what="a check on the device failed: mostly a label or index out of its range",
        why="items hold a value that the model's layer has no place for; the line that is shown is "
        "a later one, since the device runs behind",
        remedies=(
            "check the range of labels and indices in a batch on the CPU",
            "run once with CUDA_LAUNCH_BLOCKING=1, which shows the right line",
        ),
    ),
    Entry(
        name="pin-thread",
        code="crash.pin_thread",
        texts=(r"Pin memory thread exited unexpectedly",),
        what="the thread that pins batches has died, and with it the way from the workers",
        why="it dies of an error of its own, whose traceback stands further above: no more "
        "descriptors, a worker that was gone, pinned memory or the device's used up",
        remedies=(
            "read the traceback of the thread _pin_memory_loop above this one",
            "run with pin_memory=False, where the same error comes up in the main thread",
            "raise ulimit -n if it was ancdata or too many open files",
        ),
        figures=("descriptors", "memory"),
        role="symptom",
    ),
)
