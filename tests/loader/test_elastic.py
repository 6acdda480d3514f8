"""The elastic loader against torch's own: the same batches, order, seeds and errors."""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
import textwrap
import threading
import traceback
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import elastic_datasets as ds
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import SequentialSampler
from waiting import until

from feedrate.loader.dataloader import DataLoader
from feedrate.loader.iterator import ElasticIterator

pytestmark = pytest.mark.torch


def equal(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return bool(torch.equal(one, other)) and one.dtype == other.dtype
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(equal, one, other))
    return bool(one == other)


def collect(kind: Any, dataset: Any, epochs: int = 2, **options: Any) -> list[Any]:
    generator = torch.Generator().manual_seed(7)
    loader = kind(dataset, generator=generator, **options)
    return [list(loader) for _ in range(epochs)]


@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 7},
        {"batch_size": 7, "shuffle": True},
        {"batch_size": 7, "drop_last": True},
        {"batch_size": None},
        {"batch_sampler": [[3, 1], [2], [0, 4, 5]]},
        {"sampler": [5, 3, 1], "batch_size": 2},
        {"batch_size": 7, "pin_memory": False, "collate_fn": list},
    ],
    ids=str,
)
def test_batches_and_order_are_torchs(workers: int, options: dict[str, Any]) -> None:
    mine = collect(DataLoader, ds.Numbers(), num_workers=workers, **options)
    assert equal(mine, collect(TorchLoader, ds.Numbers(), num_workers=workers, **options))


@pytest.mark.parametrize(
    ("method", "persistent"),
    [("fork", False), ("fork", True), ("forkserver", False), ("spawn", True)],
)
def test_seeds_are_torchs(method: str, persistent: bool) -> None:
    options = {
        "batch_size": 5,
        "num_workers": 2,
        "multiprocessing_context": method,
        "persistent_workers": persistent,
    }
    assert equal(
        collect(DataLoader, ds.Draws(20), **options),
        collect(TorchLoader, ds.Draws(20), **options),
    )


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("workers", [1, 3])
def test_streams_are_torchs(persistent: bool, workers: int) -> None:
    options = {"batch_size": 4, "num_workers": workers, "persistent_workers": persistent}
    assert equal(
        collect(DataLoader, ds.Stream(), **options), collect(TorchLoader, ds.Stream(), **options)
    )


def test_errors_are_torchs() -> None:
    texts = []
    for kind in (DataLoader, TorchLoader):
        with pytest.raises(KeyError) as caught:
            list(kind(ds.Raises(), batch_size=8, num_workers=2))
        texts.append(str(caught.value).splitlines()[0])
        let_go(caught)
    assert texts[0] == texts[1]


def let_go(caught: pytest.ExceptionInfo[BaseException]) -> None:
    """Let go of the iterator an error came from, whose workers else wait for a collection."""
    traceback.clear_frames(caught.value.__traceback__)


def test_it_is_torchs_iterator_to_whoever_asks() -> None:
    from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

    iterator = iter(DataLoader(ds.Numbers(), num_workers=1))
    assert isinstance(iterator, _MultiProcessingDataLoaderIter)
    assert isinstance(iterator, ElasticIterator)
    assert len(iterator) == 60


def numbers(batch: Any) -> list[int]:
    data, index = batch
    assert torch.equal(data[:, 0, 0].long(), index)
    return [int(each) for each in index]


@pytest.mark.parametrize(
    ("method", "persistent", "in_order"),
    [
        ("fork", False, False),
        ("fork", False, True),
        ("fork", True, False),
        ("fork", True, True),
        ("forkserver", True, True),
        ("spawn", True, False),
    ],
)
def test_nothing_is_lost_while_it_grows_and_shrinks(
    method: str, persistent: bool, in_order: bool
) -> None:
    loader = DataLoader(
        ds.Numbers(200),
        batch_size=3,
        num_workers=2,
        multiprocessing_context=method,
        persistent_workers=persistent,
        in_order=in_order,
    )
    changes = {1: 2, 8: -3, 9: 1, 20: 1, 40: -2, 55: 2}
    if method == "spawn":
        changes = {1: 1, 8: -2, 9: 1, 40: 1}  # each of its workers imports torch anew
    for _ in range(2):
        seen = []
        for at, batch in enumerate(loader):
            seen += numbers(batch)
            change = changes.get(at, 0)
            if change > 0:
                loader.grow(change)
            elif change < 0:
                loader.shrink(-change)
        assert seen == list(range(200)) if in_order else sorted(seen) == list(range(200))
    assert loader.active_workers == 2 + 2 * sum(changes.values())


@pytest.mark.parametrize(
    "options", [{"batch_size": None}, {"batch_sampler": [[2 * i, 2 * i + 1] for i in range(50)]}]
)
def test_other_ways_to_batch_grow_and_shrink_too(options: dict[str, Any]) -> None:
    loader = DataLoader(ds.Numbers(100), num_workers=1, transport="torch", **options)
    seen = []
    for count, (data, index) in enumerate(loader):
        assert torch.equal(data.flatten()[:1].long(), torch.as_tensor(index).flatten()[:1])
        seen += torch.as_tensor(index).flatten().tolist()
        if count == 3:
            loader.grow(3)
        if count == 30:
            loader.shrink(2)
    assert seen == list(range(100))


@pytest.mark.parametrize("at", range(0, 24, 3))
def test_any_moment_will_do(at: int) -> None:
    loader = DataLoader(ds.Numbers(100), batch_size=4, num_workers=3, persistent_workers=True)
    for _ in range(2):
        seen = []
        for count, batch in enumerate(loader):
            seen += numbers(batch)
            if count == at:
                loader.shrink(2)
            if count == at + 1:
                loader.grow(2)
        assert seen == list(range(100))


def test_a_retired_worker_ends_and_others_go_on() -> None:
    loader = DataLoader(ds.Numbers(400), batch_size=4, num_workers=3)
    iterator = iter(loader)
    next(iterator)
    before = list(iterator._workers)
    loader.shrink(2)
    for _ in range(20):
        next(iterator)
    until(lambda: sum(process.is_alive() for process in before) == 1)
    assert len(iterator._workers) == 1


def test_between_epochs_it_grows_and_shrinks_too() -> None:
    loader = DataLoader(ds.Numbers(), batch_size=4, num_workers=1, persistent_workers=True)
    for change in (2, 0, -1):
        if change > 0:
            loader.grow(change)
        elif change < 0:
            loader.shrink(-change)
        assert [i for batch in loader for i in numbers(batch)] == list(range(60))
    assert len(loader._iterator._workers) == 2


def test_what_cannot_grow_says_why() -> None:
    with pytest.raises(ValueError, match="IterableDataset divides its items"):
        DataLoader(ds.Stream(), num_workers=2).grow()
    with pytest.raises(ValueError, match="one has to stay"):
        DataLoader(ds.Numbers(), num_workers=2).shrink(2)
    with pytest.raises(ValueError, match="there are no workers"):
        DataLoader(ds.Numbers()).grow()
    with pytest.raises(ValueError, match="1 or more"):
        DataLoader(ds.Numbers(), num_workers=2).grow(0)
    with pytest.raises(ValueError, match="num_workers takes a number"):
        DataLoader(ds.Numbers(), num_workers="many")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="on_worker_death takes"):
        DataLoader(ds.Numbers(), on_worker_death="ignore")  # type: ignore[arg-type]


@pytest.mark.parametrize("workers", [0, 2, "auto"])
def test_a_torch_that_it_does_not_fit_gets_a_plain_loader_and_one_warning(
    workers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("feedrate.loader.dataloader.missing_names", lambda: ("_worker_loop",))
    options = {"batch_size": 4, "shuffle": True}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = collect(DataLoader, ds.Numbers(20), num_workers=workers, **options)
    if workers == "auto":
        with pytest.warns(UserWarning, match="num_workers='auto' is"):
            count = DataLoader(ds.Numbers(20), num_workers="auto").num_workers
        options |= {"num_workers": count, "persistent_workers": True}
    else:
        options["num_workers"] = workers
    assert equal(found, collect(TorchLoader, ds.Numbers(20), **options))
    ours = [str(each.message) for each in told if "feedrate" in str(each.message)]
    assert len(ours) == (workers != 0)  # without workers nothing is lost
    assert all("this torch has no _worker_loop" in text for text in ours)


def test_large_messages_without_tensors_come_through() -> None:
    loader = DataLoader(ds.Texts(6), batch_size=2, num_workers=2)
    heads = [text.split()[0] for batch in loader for text in batch]
    assert heads == [str(i) for i in range(6)]


def test_what_cannot_be_sent_is_an_error_and_no_hang() -> None:
    with pytest.raises(Exception, match=r"pickle|lambda"):
        list(DataLoader(ds.Unsendable(), batch_size=2, num_workers=1, collate_fn=list))


def test_the_loaders_own_timeout_is_torchs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("feedrate.loader.crew.JOIN_SECONDS", 0.5)  # they will not end by then
    loader = DataLoader(ds.Sticks(), batch_size=4, num_workers=2, timeout=1)
    with pytest.raises(RuntimeError, match="DataLoader timed out after 1 seconds"):
        list(loader)


def test_dropping_the_iterator_in_the_middle_ends_its_workers_at_once() -> None:
    loader = DataLoader(ds.Numbers(500), batch_size=4, num_workers=2)
    iterator = iter(loader)
    next(iterator)
    processes = list(iterator._workers)
    gc.disable()  # it must not take a collection
    try:
        del iterator
        assert not any(process.is_alive() for process in processes)
    finally:
        gc.enable()


@pytest.mark.parametrize("persistent", [False, True])
def test_breaking_off_and_beginning_anew(persistent: bool) -> None:
    loader = DataLoader(ds.Numbers(), batch_size=4, num_workers=3, persistent_workers=persistent)
    for stop in (0, 3, 7):
        for count, _ in enumerate(loader):
            if count == stop:
                break
    assert [i for batch in loader for i in numbers(batch)] == list(range(60))


def test_an_error_in_the_step_leaves_nothing() -> None:
    loader = DataLoader(ds.Numbers(), batch_size=4, num_workers=2)

    def train() -> None:
        for _ in loader:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        train()


def test_nested_loaders() -> None:
    outer = DataLoader(ds.Numbers(12), batch_size=4, num_workers=2)
    inner = DataLoader(ds.Numbers(9), batch_size=3, num_workers=2, persistent_workers=True)
    seen = [(numbers(a), [i for b in inner for i in numbers(b)]) for a in outer]
    assert [a for a, _ in seen] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert all(b == list(range(9)) for _, b in seen)


def test_iterating_in_a_thread() -> None:
    got: list[int] = []

    def work() -> None:
        loader = DataLoader(ds.Numbers(), batch_size=4, num_workers=2)
        got.extend(i for batch in loader for i in numbers(batch))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(60)
    assert got == list(range(60))


def test_a_fork_of_the_loop_does_not_touch_its_workers() -> None:
    loader = DataLoader(ds.Numbers(200), batch_size=4, num_workers=2)
    iterator = iter(loader)
    seen = numbers(next(iterator))
    pid = os.fork()
    if pid == 0:
        del iterator, loader
        gc.collect()
        os._exit(0)
    os.waitpid(pid, 0)
    seen += [i for batch in iterator for i in numbers(batch)]
    assert seen == list(range(200))


def test_it_can_be_pickled() -> None:
    loader = DataLoader(ds.Numbers(), batch_size=4, num_workers="auto")
    copy = pickle.loads(pickle.dumps(loader))
    assert [i for batch in copy for i in numbers(batch)] == list(range(60))


def test_stats_count_what_happened() -> None:
    loader = DataLoader(ds.Numbers(40, seconds=0.002), batch_size=4, num_workers=2)
    assert loader.stats().batches == 0
    iterator = iter(loader)
    for _ in range(5):
        next(iterator)
    stats = loader.stats()
    assert stats.batches == 5
    assert stats.wait_seconds > 0
    assert {worker.number for worker in stats.workers} == {0, 1}
    assert all(0 <= worker.busy_share <= 1 for worker in stats.workers)
    # four items of 2 ms each: sleep never ends early
    assert all(w.fetch_seconds_per_batch >= 0.008 for w in stats.workers if w.batches)
    assert (stats.deaths, stats.restarts) == ((), 0)
    until(lambda: loader.stats().queue_depth == 4)  # two workers, two batches ahead each
    assert [i for batch in iterator for i in numbers(batch)] == list(range(20, 40))
    del iterator
    assert loader.stats().batches == 10  # also when it has ended


SCRIPT = """
    import sys
    from feedrate.loader.dataloader import DataLoader
    import torch
    class D(torch.utils.data.Dataset):
        def __len__(self): return 64
        def __getitem__(self, i): return torch.zeros(8)
    if __name__ == "__main__":
        loader = DataLoader(D(), batch_size=4, num_workers=2, persistent_workers={persistent})
        iterator = iter(loader)
        kept = [next(iterator) for _ in range(3)]
        {end}
"""


def run_scripts(scripts: list[str], folder: Path) -> list[subprocess.CompletedProcess[str]]:
    """Run programs, two at a time: nearly all of each is the import of torch, on one CPU."""

    def run(number: int) -> subprocess.CompletedProcess[str]:
        script = folder / f"script_{number}.py"
        script.write_text(scripts[number])
        return subprocess.run(
            [sys.executable, str(script)], capture_output=True, text=True, timeout=90, check=False
        )

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(run, range(len(scripts))))


def test_interpreter_exit_in_any_state(tmp_path: Path) -> None:
    ends = ["pass", "raise SystemExit(0)", "del loader", "del iterator"]
    states = [(persistent, end) for persistent in (False, True) for end in ends]
    program = textwrap.dedent(SCRIPT)
    scripts = [program.format(persistent=persistent, end=end) for persistent, end in states]
    for state, done in zip(states, run_scripts(scripts, tmp_path), strict=True):
        assert (done.returncode, done.stderr) == (0, ""), state


def test_pinning_happens_in_a_thread_and_changes_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from feedrate.loader import torch_private

    threads = set()

    def pin(data: Any, device: str | None) -> Any:
        threads.add(threading.current_thread().name)
        return data

    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch_private, "pin", pin)
    loader = DataLoader(
        ds.Numbers(100), batch_size=4, num_workers=2, pin_memory=True, persistent_workers=True
    )
    for _ in range(2):
        seen = []
        for count, batch in enumerate(loader):
            seen += numbers(batch)
            if count == 5:
                loader.grow()
            if count == 15:
                loader.shrink()
        assert seen == list(range(100))
    assert threads == {"feedrate_pin_memory"}
    with pytest.raises(KeyError):
        list(DataLoader(ds.Raises(), batch_size=8, num_workers=2, pin_memory=True))


def test_batch_sampler_is_asked_as_torch_asks_it() -> None:
    """The sampler is advanced in the loop's own thread, as far ahead as torch does it."""
    asked: list[int] = []

    class Watched(SequentialSampler):
        def __iter__(self) -> Any:
            for index in super().__iter__():
                asked.append(threading.get_ident())
                yield index

    counts = []
    for kind in (DataLoader, TorchLoader):
        asked.clear()
        data = ds.Numbers(40)
        iterator = iter(kind(data, sampler=Watched(data), batch_size=None, num_workers=2))
        steps = []
        for _ in range(40):
            next(iterator)
            steps.append(len(asked))
        counts.append(steps)
        assert set(asked) == {threading.get_ident()}
        del iterator
    assert counts[0] == counts[1]


INTERRUPTED = """
    import signal, sys, time
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job may ignore it
    from feedrate.loader.dataloader import DataLoader
    import torch
    class D(torch.utils.data.Dataset):
        def __len__(self): return 10**6
        def __getitem__(self, i):
            time.sleep(0.005)
            return torch.zeros(8)
    if __name__ == "__main__":
        loader = DataLoader(D(), batch_size=4, num_workers=2, on_worker_death="replace")
        for count, batch in enumerate(loader):
            if count == 3:
                print("running", flush=True)
"""


def test_ctrl_c_ends_everything(tmp_path: Path) -> None:
    import signal

    import psutil

    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(INTERRUPTED))
    process = subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "running\n"
    workers = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, signal.SIGINT)  # a terminal sends it to the workers too
    _, errors = process.communicate(timeout=30)
    assert process.returncode == -signal.SIGINT
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert errors.count("Traceback") == 1
    until(lambda: not any(worker.is_running() for worker in workers))


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({"batch_size": 7, "num_workers": 2}, "batch_size 7, num_workers 2, transport arena"),
        ({"num_workers": "auto"}, "batch_size 1, num_workers auto (1 now), transport arena"),
        (
            {"batch_sampler": [[1], [2]], "transport": "torch"},
            "batches of list, num_workers 0, transport torch",
        ),
        ({"batch_size": None}, "batch_size None, num_workers 0, transport arena"),
    ],
)
def test_a_loader_is_one_line(options: dict[str, Any], shown: str) -> None:
    assert repr(DataLoader(ds.Numbers(), **options)) == (
        f"<feedrate.DataLoader of Numbers: {shown}>"
    )
