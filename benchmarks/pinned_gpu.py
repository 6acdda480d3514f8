"""Checks pinning in place on a machine with a GPU: ``python benchmarks/pinned_gpu.py [SECONDS]``

Writes results/pinned_gpu.md. SECONDS (30) is how long copies are put under stress. It checks that
batches arrive pinned and without a thread; that no copy reads a slot that is filled again, on the
default, a pooled and a foreign stream, with the device far behind (and that the same check finds
wrong bytes when slots are freed at once, or it would prove nothing); that nothing stays pinned; and
measures what a fence costs, and batches per second against torch's pin thread, by turns. Ends with
status 1 where a check fails.
"""

from __future__ import annotations

import ctypes
import gc
import itertools
import os
import statistics
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tables
import torch
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import Dataset

from feedrate.loader import cuda_device, in_place, torch_private
from feedrate.loader import pinning as pinning_module
from feedrate.loader.dataloader import DataLoader
from feedrate.loader.pinning import Pinning

MIB = 2**20
ROUNDS = 7
BEHIND_CYCLES = 20_000_000
"""Some 10 ms of work before each copy under stress: the loop is many batches ahead."""


class Filled(Dataset):
    """Item i is full of i; its batch is made at once, as a collate into the slot would."""

    def __init__(self, length: int, size: int) -> None:
        self.length = length
        self.elements = size // 4

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        return {"image": torch.full((self.elements,), float(index)), "label": torch.tensor(index)}


class Counting:
    """Counts what is pinned and unpinned."""

    def __init__(self, device: cuda_device.CudaDevice) -> None:
        self.pinned: dict[int, int] = {}
        self._register, self._unregister = device.register, device.unregister
        device.register = self.register  # type: ignore[method-assign]
        device.unregister = self.unregister  # type: ignore[method-assign]

    def register(self, address: int, size: int) -> bool:
        done = self._register(address, size)
        if done:
            self.pinned[address] = size
        return done

    def unregister(self, address: int) -> None:
        self._unregister(address)
        del self.pinned[address]


def open_or_exit() -> cuda_device.CudaDevice:
    if not torch.cuda.is_available():
        sys.exit("There is no GPU that torch can use here: run this on a machine with one.")
    if torch.version.cuda is None:
        sys.exit("This torch is made for ROCm: pinning in place needs CUDA.")
    torch.cuda.init()
    try:
        device = cuda_device.CudaDevice(cuda_device.Driver())
    except (OSError, AttributeError) as error:
        sys.exit(f"The driver is older than CUDA 12.5, or cannot be loaded ({error}): update it.")
    if not device._pins():
        sys.exit("CUDA refuses to pin shared memory here: see ulimit -l, or leave WSL.")
    if not device._fences_cover_every_stream():
        sys.exit("FAILED: a fence was passed while a stream still worked, or none could be seen.")
    return device


def foreign_stream() -> Any:
    """Return a stream that is not torch's."""
    handle = ctypes.c_void_p()
    code = torch.cuda.cudart().cudaStreamCreate(ctypes.addressof(handle))
    assert int(code) == 0
    assert handle.value is not None
    return torch.cuda.ExternalStream(handle.value)


def check_arrival() -> list[str]:
    before = threading.active_count()
    loader = DataLoader(Filled(400, MIB), batch_size=4, num_workers=4, pin_memory=True)
    wrong = 0
    for batch in loader:
        wrong += not all(tensor.is_pinned() for tensor in batch.values())
        wrong += threading.active_count() > before
    return ["batches that arrived unpinned, or with a thread", "100", str(wrong)]


def check_fork() -> list[str]:
    """A forked process looks at a pinned batch, which is the system's matter and the driver's."""
    loader = DataLoader(Filled(8, MIB), batch_size=8, num_workers=1, pin_memory=True)
    batch = next(iter(loader))["image"]
    pid = os.fork()
    if pid == 0:
        seen = [batch[:, place].tolist() for place in (0, -1)]  # torch's threads are not here
        os._exit(0 if seen == [[float(i) for i in range(8)]] * 2 else 1)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return ["forked processes that could not read a batch", "1", str(int(status != 0))]


def stress(seconds: float, streams: list[Any]) -> tuple[int, int]:
    """Return batches, and those of which the device read other bytes than were sent."""
    wrong = torch.zeros((), dtype=torch.int64, device="cuda")
    end = time.monotonic() + seconds
    turn = itertools.cycle(streams)
    batches = 0
    while time.monotonic() < end:
        size = (MIB // 8, MIB, 6 * MIB)[batches % 3]
        loader = DataLoader(Filled(400, size), batch_size=2, num_workers=4, pin_memory=True)
        kept = []
        for batch in loader:
            stream = next(turn)
            # In memory of torch's own, which it keeps until it is read; nothing here may wait.
            labels = batch["label"].float().clone().pin_memory()
            with torch.cuda.stream(stream):
                torch_private.keep_cuda_busy(BEHIND_CYCLES)
                image = batch["image"].to("cuda", non_blocking=True)
                truth = labels.to("cuda", non_blocking=True)
                bad = (image != truth[:, None]).any().long()
            kept.append((stream, bad))
            del batch, image
            batches += 1
        for stream, bad in kept:
            torch.cuda.current_stream().wait_stream(stream)
            wrong += bad
        torch.cuda.synchronize()
    return batches, int(wrong)


@contextmanager
def without_quarantine() -> Iterator[None]:
    """Free slots at once: what the stress must notice."""
    before = Pinning._let_go
    Pinning._let_go = lambda self, free: free()  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        Pinning._let_go = before  # type: ignore[method-assign]


@contextmanager
def without_pinning_in_place() -> Iterator[None]:
    before = in_place.find_pinning
    in_place.find_pinning = lambda kind: None
    try:
        yield
    finally:
        in_place.find_pinning = before


def epoch(loader: Any, batches: int) -> tuple[float, float]:
    """Return batches/s and the main process's CPU milliseconds a batch, of a warm epoch."""
    for batch in loader:
        batch["image"].to("cuda", non_blocking=True)
    torch.cuda.synchronize()
    start, cpu = time.perf_counter(), time.process_time()
    for batch in loader:
        batch["image"].to("cuda", non_blocking=True).add_(1)
    torch.cuda.synchronize()
    seconds, used = time.perf_counter() - start, time.process_time() - cpu
    return batches / seconds, used / batches * 1e3


def throughput(size: int, batches: int) -> list[list[str]]:
    """Return a row for each way, each run by turns; the ratio is the median of paired ones."""
    data = Filled(batches, size)
    settings = {"batch_size": 1, "num_workers": 4, "pin_memory": True, "persistent_workers": True}
    ways = ["feedrate, in place", "feedrate, pin thread", "torch, pin thread"]
    rates: dict[str, list[float]] = {way: [] for way in ways}
    used: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(ROUNDS):
        for way in ways[turn % 3 :] + ways[: turn % 3]:
            if way == ways[1]:
                with without_pinning_in_place():
                    rate, cpu = epoch(DataLoader(data, **settings), batches)
            else:
                kind: Any = DataLoader if way == ways[0] else TorchLoader
                rate, cpu = epoch(kind(data, **settings), batches)
            rates[way].append(rate)
            used[way].append(cpu)
            gc.collect()
    rows = []
    for way in ways:
        ratios = [a / b for a, b in zip(rates[way], rates[ways[2]], strict=True)]
        low, high = min(rates[way]), max(rates[way])
        rate, ratio, cpu = map(statistics.median, (rates[way], ratios, used[way]))
        name = f"{size // MIB} MiB, {way}"
        rows.append([name, f"{rate:.0f}", f"{low:.0f} to {high:.0f}", f"{ratio:.2f}", f"{cpu:.3f}"])
    return rows


def cost_of_fences(device: cuda_device.CudaDevice, streams: int) -> list[str]:
    """Return the microseconds to set a fence and to look at it, with so many streams used."""
    for stream in [torch.cuda.Stream() for _ in range(streams)]:
        with torch.cuda.stream(stream):
            torch.ones(1, device="cuda")
    torch.cuda.synchronize()
    setting, looking = [], []
    for _ in range(500):
        start = time.perf_counter()
        fence = device.fence()
        middle = time.perf_counter()
        fence.passed()
        looking.append(time.perf_counter() - middle)
        setting.append(middle - start)
        torch.cuda.synchronize()
        fence.passed()
    medians = [statistics.median(times) * 1e6 for times in (setting, looking)]
    return [str(streams), *(f"{median:.1f}" for median in medians)]


def main() -> None:
    warnings.filterwarnings("ignore", message="This DataLoader will create")
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 30.0
    device = open_or_exit()
    counting = Counting(device)
    pinning = Pinning(device)
    pinning_module._cuda = lambda: pinning  # type: ignore[assignment]
    streams = [torch.cuda.default_stream(), torch.cuda.Stream(), foreign_stream()]

    checks = [check_arrival(), check_fork()]
    batches, wrong = stress(seconds, streams)
    checks.append(["batches of which the device read wrong bytes", str(batches), str(wrong)])
    with without_quarantine():
        control, found = stress(seconds / 3, streams)
    checks.append(["the same with slots freed at once: must be found", str(control), str(found)])
    fences = [cost_of_fences(device, count) for count in (1, 8, 64)]
    rates = [row for size in (1, 8, 40) for row in throughput(size * MIB, 1600 // size)]
    gc.collect()
    for _ in range(4):
        torch.cuda.synchronize()
        pinning.settle()
    checks.append(["parts of arenas left pinned", "", str(len(counting.pinned))])
    checks.append(["whether pinning still works: 1", "", str(int(pinning.works))])
    tables.write(
        "pinned_gpu.md",
        "# Pinned in place",
        tables.made_by("pinned_gpu.py")
        + f" GPU: {torch.cuda.get_device_name()}, {torch.cuda.device_count()} seen.",
        tables.table(["check", "batches", "found"], checks),
        "What a fence takes, in microseconds, by how many streams of torch's pool were used:",
        tables.table(["streams", "to set", "to look at"], fences),
        f"Four workers, warm epochs, median of {ROUNDS} by turns. Ratios are to torch, paired:",
        tables.table(
            ["batch", "batches/s", "range", "ratio", "main process, CPU ms a batch"], rates
        ),
    )
    if int(checks[0][2]) or wrong or not found or counting.pinned or not pinning.works:
        sys.exit("FAILED: see the first table.")


if __name__ == "__main__":
    main()
