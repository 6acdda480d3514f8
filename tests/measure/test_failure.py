"""From what real loaders raise to one sentence with the user's own line and the way out."""

from __future__ import annotations

import multiprocessing
import re
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from builders import make_facts
from feedrate.errors import TargetError, UsageError
from feedrate.measure import wire
from feedrate.measure.blame import text_of
from feedrate.measure.configure import read_facts
from feedrate.measure.failure import (
    describe_end,
    describe_exception,
    describe_no_batches,
    with_exit_codes,
    with_memory_kill,
)
from feedrate.measure.hang import describe_lost_batch
from feedrate.measure.loop import run_epoch
from feedrate.measure.target import Target, load_module
from feedrate.records import RunError
from targets import basic_failures

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore:Got pickle error:UserWarning"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]

SOURCE = Path(basic_failures.__file__).read_text().splitlines()


def place(mark: str) -> str:
    """Return how a sentence names the line that is marked in the targets' file."""
    line = next(n for n, text in enumerate(SOURCE, 1) if text.endswith(f"# here: {mark}"))
    name = next(
        found[1]
        for text in reversed(SOURCE[:line])
        if (found := re.match(r"\s*def (\w+)", text)) is not None
    )
    return f"(basic_failures.py, line {line}, in {name})"


def failure(loader: DataLoader[Any], step: Callable[[Any], object] | None = None) -> RunError:
    """Measure a loader that fails; return what is said of it."""
    facts = read_facts(Target(loader, step), ())
    try:
        run_epoch(
            loader,
            step,
            clock=time.perf_counter,
            synchronize=lambda: None,
            on_progress=lambda _: None,
        )
    except BaseException as error:
        described = describe_exception(error, setting_up=False, facts=facts)
        traceback.clear_frames(error.__traceback__)  # lets go of the iterator, and of its workers
    else:
        pytest.fail("the loader did not fail")
    assert "\n" not in described.sentence
    assert described.traceback
    wire.decode(wire.encode(wire.Failed(error=described)))
    return described


def items(name: str, workers: int = 0, **changes: Any) -> DataLoader[Any]:
    dataset = basic_failures.Items(getattr(basic_failures, name))
    return DataLoader(dataset, **({"batch_size": 4, "num_workers": workers} | changes))


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("value_error", "ValueError: item is broken"),
        ("key_error", "KeyError: 'label'"),  # torch wraps their messages
        ("two_arguments", "TwoArguments: a.jpg: is truncated"),  # torch cannot make another one
        ("many_lines", "ValueError: first line"),
        ("no_message", "AssertionError"),
        ("in_library", "TypeError: stack(): argument 'tensors' (position 1) must be tuple of"),
        ("undecodable", r"FileNotFoundError: no file \udcff.jpg"),
    ],
)
def test_an_item_that_cannot_be_made_is_named_with_the_users_line(
    name: str, workers: int, says: str
):
    error = failure(items(name, workers))
    assert error.kind == "exception"
    assert error.sentence.startswith(f"the dataset raised {says}")
    assert error.sentence.endswith(place(name))


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize(("name", "sample"), [("chained", 3), ("while_handling", 4)])
def test_the_root_of_a_chain_is_told_too(name: str, sample: int, workers: int):
    assert failure(items(name, workers)).sentence == (
        f"the dataset raised RuntimeError: cannot read sample {sample} {place(name)}, "
        "after KeyError: 'label'"
    )


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize(
    ("name", "way_out"),
    [
        ("none", "an item is None: does __getitem__ return its value?"),
        ("of_two_sizes", "give items one size, or a collate_fn that pads"),
        ("of_two_lengths", "give items one size, or a collate_fn that pads"),
        ("objects", "convert items to tensors, or give a collate_fn"),
    ],
)
def test_items_that_do_not_go_together_are_collatings_fault(name: str, workers: int, way_out: str):
    sentence = failure(items(name, workers)).sentence
    assert sentence.startswith("collating a batch raised ")
    assert sentence.endswith(f": {way_out}")
    assert ".py" not in sentence  # none of the user's lines is at fault


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize(
    ("who", "make", "mark"),
    [
        ("the dataset", lambda n: DataLoader(basic_failures.BrokenStream(), num_workers=n), None),
        ("the dataset", lambda n: DataLoader(basic_failures.BrokenAtStart(), num_workers=n), None),
        (
            "the collate function",
            lambda n: items("good", n, collate_fn=basic_failures.broken_collate),
            "broken_collate",
        ),
        (
            "the sampler",
            lambda n: items("good", n, sampler=basic_failures.BrokenSampler(), batch_size=1),
            "BrokenSampler",
        ),
        (
            "the loader",
            lambda n: basic_failures.BrokenLoader([1], num_workers=n),
            "BrokenLoader",
        ),
    ],
)
def test_the_part_at_fault_is_named(who: str, make: Any, mark: str | None, workers: int):
    loader = make(workers)
    mark = mark or type(loader.dataset).__name__
    sentence = failure(loader).sentence
    assert sentence.startswith(f"{who} raised ValueError: ")
    assert sentence.endswith(place(mark))


def test_worker_init_fn_is_named():
    loader = items("good", 1, worker_init_fn=basic_failures.broken_init)
    says = f"worker_init_fn raised ValueError: no database {place('broken_init')}"
    assert failure(loader).sentence == says


@pytest.mark.parametrize("workers", [0, 1])
def test_the_step_is_told_from_the_dataset(workers: int):
    error = failure(items("good", workers), basic_failures.broken_step)
    assert error.kind == "exception"
    assert error.sentence == f"the step raised ValueError: loss is nan {place('broken_step')}"


def test_a_step_with_a_loader_of_its_own_is_still_the_step():
    sentence = failure(items("good"), basic_failures.step_with_a_loader).sentence
    assert sentence == f"the step raised ValueError: item is broken {place('value_error')}"


@pytest.mark.parametrize("name", ["none_step", "no_length_step"])
def test_what_a_step_does_to_none_is_not_blamed_on_the_items(name: str):
    sentence = failure(items("good"), getattr(basic_failures, name)).sentence
    assert sentence.startswith("the step raised ")
    assert sentence.endswith(place(name))  # and no hint that would be wrong


def test_a_dataset_without_a_length_is_told_what_to_do():
    sentence = failure(DataLoader(basic_failures.NoLength())).sentence
    assert "object of type 'NoLength' has no len()" in sentence
    assert sentence.endswith("give the dataset a __len__, or make it an IterableDataset")


@pytest.mark.parametrize(
    ("name", "kind", "says"),
    [
        ("killed", "killed", "a worker died (SIGKILL)"),
        ("segfaults", "worker_died", "a worker died (SIGSEGV)"),
        ("leaves", "worker_died", "a worker ended with exit code 3"),
        ("exits", "worker_died", "a worker ended with exit code 1"),
    ],
)
def test_a_worker_that_dies_is_named_with_how(
    name: str, kind: str, says: str, capfd: pytest.CaptureFixture[str]
):
    error = failure(items(name, 1))
    assert error.kind == kind
    assert error.sentence.startswith(says)
    capfd.readouterr()  # torch's own handler in the worker prints a line


def test_sys_exit_in_the_main_process_is_told():
    error = failure(items("exits"))
    assert error.kind == "exited"
    assert error.sentence == "the target called sys.exit(enough) while it was measured"


def test_the_loaders_own_timeout_is_told():
    goes_on = multiprocessing.get_context("fork").Event()
    dataset = basic_failures.Items(lambda index: goes_on.wait(60))
    loader = DataLoader(dataset, num_workers=1, timeout=1, multiprocessing_context="fork")
    try:
        run_epoch(
            loader,
            None,
            clock=time.perf_counter,
            synchronize=lambda: None,
            on_progress=lambda _: None,
        )
    except RuntimeError as caught:
        goes_on.set()
        error = describe_exception(caught, setting_up=False)
        traceback.clear_frames(caught.__traceback__)
    assert error.kind == "timeout"
    assert "the loader's own timeout of 1 s passed without a batch" in error.sentence


def test_a_batch_that_cannot_be_sent_is_told_by_what_its_worker_prints(
    capfd: pytest.CaptureFixture[str],
):
    # Such a worker prints an error and goes on; torch waits for its batch for ever.
    loader = items("cannot_be_sent", 1, timeout=1, collate_fn=basic_failures.as_they_are)
    failure(loader)
    printed = "user's own print\n" + capfd.readouterr().err
    assert "cannot pickle '_thread.lock' object" in printed
    error = describe_lost_batch(printed + "more of the user's own\n")
    assert error is not None
    assert error.kind == "exception"
    assert "a worker could not send its batch (TypeError: cannot pickle" in error.sentence
    assert "\n" not in error.sentence


def shares_a_lock() -> basic_failures.Items:
    return basic_failures.Items(multiprocessing.get_context("fork").Event().wait)


def holds_a_generator() -> basic_failures.Items:
    return basic_failures.Items((number for number in range(3)).send)


@pytest.mark.parametrize(
    ("make", "way_out"),
    [
        (
            basic_failures.make_local_items,
            "define it at module level, or use the start method fork (--start-method fork)",
        ),
        (shares_a_lock, "use the start method fork (--start-method fork)"),
        (
            holds_a_generator,
            (
                "open it in the worker instead of in __init__, or use the start method fork "
                "(--start-method fork)"
            ),
        ),
    ],
)
def test_what_spawned_workers_cannot_be_given(make: Any, way_out: str):
    loader = DataLoader(make(), num_workers=1, multiprocessing_context="spawn")
    error = failure(loader)
    assert error.kind == "exception"
    assert error.sentence.startswith("starting a worker raised ")
    assert error.sentence.endswith(f": {way_out}")


def test_a_module_that_spawned_workers_cannot_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setitem(sys.modules, "basic_taken", ModuleType("basic_taken"))
    monkeypatch.setitem(sys.modules, "feedrate_target_basic_taken", None)  # so that it goes again
    del sys.modules["feedrate_target_basic_taken"]
    path = tmp_path / "basic_taken.py"
    path.write_text("class Items(list):\n    pass\n")
    module = load_module(str(path))
    loader = DataLoader(module.Items([1]), num_workers=1, multiprocessing_context="spawn")
    error = failure(loader)
    assert error.sentence.startswith("a worker could not start: another module has the target")
    assert error.sentence.endswith("rename the file")
    assert "No module named 'feedrate_target_basic_taken'" in capfd.readouterr().err


def setup_failure(call: Callable[[], object]) -> RunError:
    try:
        call()
    except BaseException as error:
        return describe_exception(error, setting_up=True)
    pytest.fail("the set-up did not fail")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "import not_installed_anywhere",
            (
                "ModuleNotFoundError: No module named 'not_installed_anywhere' (basic_broken.py, "
                "line 1, in <module>): install it, or run feedrate with the Python that has it"
            ),
        ),
        (
            "from . import other",
            (
                "ImportError: attempted relative import with no known parent package "
                "(basic_broken.py, line 1, in <module>): name the target package.module:name "
                "instead of by its file"
            ),
        ),
        ("x = [1\ny = 2", "SyntaxError: .*basic_broken.py, line [12]"),
        ("1 / 0", "ZeroDivisionError: division by zero (basic_broken.py, line 1, in <module>)"),
    ],
)
def test_a_target_that_cannot_be_imported(
    text: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    path = tmp_path / "basic_broken.py"
    path.write_text(text)
    error = setup_failure(lambda: load_module(str(path)))
    assert error.kind == "target"
    assert error.sentence.startswith("importing the target raised ")
    assert says in error.sentence or re.search(says, error.sentence)


def test_a_factory_that_fails_and_one_that_needs_arguments():
    def make_loader(path: str) -> None:
        raise FileNotFoundError("no folder photos")

    failed = setup_failure(lambda: make_loader("photos"))
    assert failed.sentence.startswith(
        "the target's function raised FileNotFoundError: no folder photos (test_failure.py, line "
    )
    code = "def call(make): make()"
    namespace: dict[str, Any] = {}
    exec(compile(code, "/x/feedrate/measure/child.py", "exec"), namespace)
    try:
        namespace["call"](make_loader)
    except TypeError as caught:
        caught.__traceback__ = caught.__traceback__.tb_next  # type: ignore[union-attr]
        error = describe_exception(caught, setting_up=True)
    assert error.sentence.startswith("setting up the target raised TypeError: ")
    assert error.sentence.endswith(": a target's function is called without arguments")


def test_sys_exit_before_the_loader_is_made():
    for code, shown in ((3, "3"), (None, ""), ("bye", "bye")):
        error = setup_failure(lambda code=code: sys.exit(code))
        assert error.kind == "target"
        assert error.sentence == (
            f"the target called sys.exit({shown or 'None' if code else shown}) "
            "before it returned a loader"
        )


def test_our_own_errors_speak_for_themselves():
    error = setup_failure(lambda: (_ for _ in ()).throw(TargetError("there is no file a.py")))
    assert error == RunError(kind="target", sentence="there is no file a.py")
    error = setup_failure(lambda: (_ for _ in ()).throw(UsageError("--device: try auto")))
    assert (error.kind, error.sentence) == ("target", "--device: try auto")


def raised(error: BaseException) -> BaseException:
    with pytest.raises(type(error)) as caught:
        raise error
    return caught.value


@pytest.mark.parametrize(
    "text",
    [
        "unable to write to file </torch_123_4567_0>: No space left on device (28)",
        "unable to allocate shared memory(shm) for file </torch_9_8_7>: No space left on device",
        (
            "Caught RuntimeError in DataLoader worker process 1.\n"
            "Original Traceback (most recent call last):\n"
            '  File "/x/site-packages/torch/storage.py", line 3, in share\n    a()\n'
            "RuntimeError: unable to resize file </torch_1_2> to the right size: No space left (28)"
        ),
    ],
)
def test_shared_memory_that_is_full_is_recognized(text: str):
    error = describe_exception(raised(RuntimeError(text)), setting_up=False)
    assert error.kind == "shared_memory"
    assert "enlarge /dev/shm" in error.sentence


def test_a_full_disk_is_not_taken_for_full_shared_memory():
    error = describe_exception(
        raised(OSError(28, "No space left on device", "/home/torch_env/cache")), setting_up=False
    )
    assert error.kind == "exception"
    assert "No space left on device" in error.sentence


def test_a_worker_that_went_before_its_batch_was_taken():
    def rebuild_storage_fd() -> None:
        raise ConnectionRefusedError(111, "Connection refused")

    try:
        rebuild_storage_fd()
    except OSError as caught:
        error = describe_exception(caught, setting_up=False)
    assert error.kind == "worker_died"


TEXTS = st.text() | st.sampled_from(
    [
        "Caught ValueError in DataLoader worker process 0.\nOriginal Traceback (most recent",
        "Caught X in DataLoader worker process 0.\nOriginal Traceback (most recent call last):\n",
        "Caught X in pin memory thread\nTraceback (most recent call last):\nValueError",
        "\nThe above exception was the direct cause of the following exception:\n",
        '  File "a.py", line 3, in f\n',
        "DataLoader worker (pid 3) is killed by signal: ",
        "has no len()",
        "\x1b[31mred\x1b[0m",
        "\udcff",
    ]
)


class Odd(Exception):
    """Cannot be shown."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __str__(self) -> str:
        raise self.error


@given(parts=st.lists(TEXTS, max_size=4), setting_up=st.booleans())
def test_any_message_gives_one_line_that_can_be_sent(parts: list[str], setting_up: bool):
    text = "".join(parts)
    for error in (ValueError(text), RuntimeError(text), KeyError(text), SystemExit(text)):
        described = describe_exception(raised(error), setting_up=setting_up, facts=make_facts())
        assert len(described.sentence.splitlines()) == 1
        assert described.sentence.isprintable()
        message = wire.Failed(error=described)
        assert wire.decode(wire.encode(message)) == message
        lost = describe_lost_batch(text + "in _feed\n" + text)
        assert lost is None or lost.sentence.isprintable()


@pytest.mark.parametrize("inner", [RuntimeError("no"), ValueError("no"), TypeError("no")])
def test_an_error_that_cannot_even_be_shown_is_described(inner: Exception):
    error = describe_exception(raised(Odd(inner)), setting_up=False)
    assert "Odd: (its message cannot be shown)" in error.sentence
    assert text_of(SystemExit(Odd(inner))) == "(its message cannot be shown)"


def test_long_chains_and_circles_end():
    first: BaseException = ValueError("first")
    error = first
    for number in range(500):
        following = ValueError(str(number))
        following.__cause__ = error
        error = following
    assert "after ValueError: " in describe_exception(error, setting_up=False).sentence
    first.__cause__ = error
    assert describe_exception(first, setting_up=False).kind == "exception"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"dataset_length": 0, "length": 0}, "its dataset is empty (len() is 0)"),
        (
            {"dataset_length": 5, "length": 0, "batch_size": 8},
            "its dataset has 5 items, fewer than one batch of 8, and drop_last is on",
        ),
        (
            {"iterable": True, "dataset_length": 5, "length": 0, "batch_size": 8},
            "fewer than one batch of 8, and drop_last is on",
        ),
        (
            {"iterable": True, "dataset_length": None, "length": None, "batch_size": 8},
            (
                "yielded nothing: check its source and its shards "
                "(or, with drop_last, less than one batch of 8 a worker)"
            ),
        ),
        (
            {"iterable": True, "dataset_length": None, "length": None, "batch_size": None},
            "yielded nothing: check its source and its shards",
        ),
        ({"dataset_length": 5, "length": 3, "batch_size": 1}, "its sampler yielded nothing"),
        ({"dataset_length": 5, "length": None, "batch_size": None}, "its sampler yielded nothing"),
        ({"loader_type": "mine.Loader"}, "neither its sampler nor mine.Loader itself yielded"),
        ({"iterable": True, "batch_tensors": 2}, "can be iterated only once"),
        ({"batch_tensors": 1}, "can be iterated only once"),
    ],
)
def test_why_no_batch_came(changes: dict[str, Any], says: str):
    fields = {"iterable": False, "batch_tensors": 0} | changes
    error = describe_no_batches(make_facts(**fields))
    assert error.kind == "no_batches"
    assert error.sentence.startswith("the loader delivered no batch: ")
    assert says in error.sentence


@pytest.mark.parametrize(
    ("code", "kind", "says"),
    [
        (0, "exited", "the target's process ended before it was measured"),
        (3, "exited", "ended with exit code 3"),
        (-signal.SIGKILL, "killed", "the main process was killed (SIGKILL)"),
        (-signal.SIGTERM, "killed", "the main process was killed (SIGTERM)"),
        (-signal.SIGBUS, "shared_memory", "got a bus error; it ran out of shared memory"),
        (-signal.SIGSEGV, "crashed", "crashed (SIGSEGV) in native code"),
        (-signal.SIGABRT, "crashed", "crashed (SIGABRT) in native code"),
        (-signal.SIGILL, "crashed", "crashed (SIGILL) in native code"),
        (-200, "killed", "signal 200"),
    ],
)
def test_how_a_child_ended(code: int, kind: str, says: str):
    error = describe_end(code, "its output")
    assert (error.kind, error.exit_code, error.traceback) == (kind, code, "its output")
    assert says in error.sentence


@pytest.mark.parametrize(
    ("codes", "kind", "says"),
    [
        ((3,), "worker_died", "a worker ended with exit code 3"),
        ((-9, 1), "killed", "a worker died (SIGKILL)"),
        ((-11,), "worker_died", "a worker died (SIGSEGV)"),
        ((-7,), "shared_memory", "a worker was killed by a bus error"),
        ((-200,), "worker_died", "a worker died (signal 200)"),
        ((), "worker_died", "gone"),
    ],
)
def test_exit_codes_tell_how_a_worker_ended(codes: tuple[int, ...], kind: str, says: str):
    error = with_exit_codes(RunError(kind="worker_died", sentence="gone"), codes)
    assert error.kind == kind
    assert error.sentence.startswith(says)


def test_exit_codes_change_nothing_else():
    error = RunError(kind="exception", sentence="the dataset raised ValueError")
    assert with_exit_codes(error, (1,)) is error


@pytest.mark.parametrize("kind", ["killed", "worker_died"])
def test_a_kill_for_memory_is_told_by_the_groups_count(kind: Any):
    error = RunError(kind=kind, sentence="a worker died", traceback="whole", exit_code=-9)
    assert with_memory_kill(error, 0) is error
    told = with_memory_kill(error, 2)
    assert told.kind == "out_of_memory"
    assert "the kernel killed 2 of its processes for memory" in told.sentence
    assert (told.traceback, told.exit_code) == ("whole", -9)


def test_an_exception_is_no_kill_for_memory():
    error = RunError(kind="exception", sentence="the dataset raised ValueError")
    assert with_memory_kill(error, 3) is error
