"""Whole logs: what ended a program is told first, and what follows from it is not told at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.texts import ITEM, TEXTS, in_worker
from feedrate.doctor.explaining import explain_text, worth_telling
from feedrate.doctor.log import read_log

HEADER = (
    "Traceback (most recent call last):\n"
    '  File "/home/user/train.py", line 40, in main\n    loss.backward()\n'
)


def codes(text: str) -> list[str]:
    return [found.code for found in explain_text(text)]


def with_prefix(prefix: str, text: str) -> list[str]:
    return [f"{prefix}{line}" for line in text.splitlines()]


def interleaved(*streams: list[str]) -> str:
    """Return the lines of several streams in turn, as ranks print at the same time."""
    longest = max(map(len, streams))
    lines = [stream[n] for n in range(longest) for stream in streams if n < len(stream)]
    return "\n".join(lines) + "\n"


# What users of DataLoader reported in public, as printed there: text, code, words, forbidden words.
REPORTED = [
    (
        (
            "OSError: [WinError 1455] The paging file is too small for this operation to complete. "
            'Error loading "...\\torch\\lib\\<name>.dll" or one of its dependencies.'
        ),
        "crash.windows_commit",
        ("page file", "num_workers"),
        (),
    ),
    (
        (
            "(no text; needs CUDA) possible end: RuntimeError: CUDA error: out of memory from "
            "pin_memory, or OOM kill"
        ),
        "memory.pinned_cache",
        ("pinned", "power of two"),
        (),
    ),
    (
        (
            "RuntimeError: unable to open shared memory object </torch_N_N_N> in read-write mode: "
            "No such file or directory (2)"
        ),
        "crash.shm_name_gone",
        ("file_system",),
        (),
    ),
    (
        (
            "DeprecationWarning: This process (pid=N) is multi-threaded, use of fork() may lead to "
            "deadlocks in the child."
        ),
        "fork_threads",
        (),
        ("deadlock found",),
    ),
    (
        "RuntimeError: DataLoader worker (pid N) is killed by signal: Killed. ",
        "crash.worker_sigkill",
        ("out of memory", "worker"),
        (),
    ),
    (
        "AttributeError: Can't pickle local object 'make_dataset.<locals>.<lambda>'",
        "crash.not_picklable",
        ("transform", "lambda", "pickle"),
        (),
    ),
    ("TypeError: h5py objects cannot be pickled", "crash.not_picklable", ("h5py", "lazily"), ()),
    (
        (
            "RuntimeError: stack expects each tensor to be equal size, but got [10] at entry 0 and "
            "[13] at entry 1"
        ),
        "crash.collate_size",
        ("[13]", "[10]"),
        (),
    ),
    (
        "AssertionError: daemonic processes are not allowed to have children",
        "crash.nested_workers",
        ("inner", "num_workers=0"),
        (),
    ),
    (
        (
            "UserWarning: The dataloader, train_dataloader, does not have many workers which may "
            "be a bottleneck."
        ),
        "speed.too_few_workers",
        ("step",),
        ("increase num_workers",),
    ),
]


@pytest.mark.parametrize(("text", "code", "words", "forbidden"), REPORTED)
def test_what_users_reported(
    text: str, code: str, words: tuple[str, ...], forbidden: tuple[str, ...]
) -> None:
    found = explain_text(text)
    assert found[0].code == code
    said = " ".join((found[0].what, found[0].why, *found[0].remedies))
    assert all(word in said for word in words)
    assert not any(word in said for word in forbidden)


def test_the_root_under_wrappers_of_a_worker_is_named_with_the_users_line() -> None:
    (found,) = explain_text(in_worker("KeyError: 'label'", ITEM))
    assert found.code == "unknown"
    assert found.what == (
        "KeyError: 'label' (data.py, line 12, in __getitem__, in DataLoader worker process 0)"
    )
    assert "does not guess" in found.why


def test_the_root_of_a_chain_is_the_error_that_came_first() -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "/home/user/data.py", line 5, in read\n    return table[key]\n'
        "KeyError: 'a.jpg'\n\n"
        "During handling of the above exception, another exception occurred:\n\n"
        "Traceback (most recent call last):\n"
        '  File "/home/user/train.py", line 9, in <module>\n    read()\n'
        "RuntimeError: cannot read\n"
    )
    (found,) = explain_text(text)
    assert found.what == "KeyError: 'a.jpg' (data.py, line 5, in read)"


def test_a_wrapped_and_chained_error_is_explained_by_its_cause() -> None:
    text = (
        in_worker("OSError: image file is truncated (43 bytes not processed)", ITEM)
        + "\nThe above exception was the direct cause of the following exception:\n\n"
        + "Traceback (most recent call last):\n"
        + '  File "/home/user/train.py", line 40, in main\n    fit()\n'
        + "RuntimeError: training failed\n"
    )
    found = explain_text(text)
    assert [explanation.code for explanation in found] == ["crash.data_corrupt"]
    assert "(data.py, line 12, in __getitem__" in found[0].what


@pytest.mark.parametrize("end", ["worker-exited", "worker-gone", "pin-thread", "rank-ended"])
def test_what_follows_from_a_cause_is_not_told(end: str) -> None:
    assert codes(TEXTS["worker-bus-error"][0] + TEXTS[end][0]) == ["crash.shm_exhausted"]


def test_several_ranks_are_one_cause_and_all_are_named() -> None:
    text = TEXTS["worker-killed"][0]
    ranks = [with_prefix(f"[rank{rank}]: ", text) for rank in range(4)]
    (found,) = explain_text(interleaved(*ranks))
    assert found.code == "crash.worker_sigkill"
    assert found.ranks == (0, 1, 2, 3)
    assert found.times == 4
    assert "ranks 0, 1, 2, 3" in found.finding().quote


def test_an_unknown_error_of_one_rank_is_read_whole_between_those_of_others() -> None:
    failing = with_prefix("[rank1]: ", in_worker("KeyError: 'label'", ITEM))
    waiting = with_prefix("[rank0]: ", TEXTS["rank-ended"][1] * 12)
    (found,) = explain_text(interleaved(waiting, failing))
    assert found.what.startswith("KeyError: 'label' (data.py, line 12")
    assert found.ranks == (1,)


def test_what_other_ranks_say_of_a_known_cause_is_no_unknown_error() -> None:
    known = with_prefix("[rank1]: ", TEXTS["device-memory"][0])
    later = with_prefix("[rank0]: ", in_worker("ValueError: peer said goodbye", ITEM))
    assert codes("\n".join([*known, *later])) == ["crash.device_oom"]


def test_a_launchers_own_traceback_is_no_error_of_its_own() -> None:
    launcher = (
        "Traceback (most recent call last):\n"
        '  File "/opt/venv/bin/torchrun", line 8, in <module>\n    sys.exit(main())\n'
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
        "============================================================\n"
        "train.py FAILED\nRoot Cause (first observed failure):\n[0]:\n  rank      : 1\n"
        "  exitcode  : 1 (pid: 4712)\n  error_file: <N/A>\n"
        "  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html\n"
    )
    failed = "\n".join(with_prefix("[rank1]: ", in_worker("KeyError: 'label'", ITEM)))
    (found,) = explain_text(f"{failed}\n{launcher}")
    assert found.what.startswith("KeyError: 'label'")
    assert codes(launcher) == ["crash.child_failed"]


def test_what_ended_a_program_comes_before_what_it_got_over() -> None:
    logged = in_worker("OSError: image file is truncated (43 bytes not processed)", ITEM)
    last = f"{HEADER}{TEXTS['device-memory'][0]}"
    assert codes(logged * 3 + "Epoch 2\n" + last) == ["crash.device_oom", "crash.data_corrupt"]
    unknown = in_worker("KeyError: 'label'", ITEM)
    assert codes(logged + unknown) == ["unknown", "crash.data_corrupt"]


def test_complaints_at_the_end_are_not_what_ended_it() -> None:
    text = (
        TEXTS["worker-killed"][0]
        + TEXTS["iterator-in-other-process"][0] * 2
        + TEXTS["leaked-resources"][0]
    )
    found = explain_text(text)
    assert [explanation.code for explanation in worth_telling(found)] == ["crash.worker_sigkill"]
    assert [explanation.code for explanation in found[1:]] == [
        "iterator_forked",
        "leaked_resources",
    ]


def test_rich_tracebacks_are_read() -> None:
    text = (
        "╭───────────── Traceback (most recent call last) ─────────────╮\n"
        "│ /home/user/train.py:31 in <module>                          │\n"
        "│                                                             │\n"
        "│ ❱ 31 for batch in loader:                                   │\n"
        "│ /home/user/data.py:12 in __getitem__                        │\n"
        "╰─────────────────────────────────────────────────────────────╯\n"
        "KeyError: 'label'\n"
    )
    (found,) = explain_text(text)
    assert found.what == "KeyError: 'label' (data.py, line 12, in __getitem__)"


def test_a_progress_bar_hides_nothing() -> None:
    text = "2.16it/s]\r 50%|##  | 5/10\rRuntimeError: DataLoader timed out after 5 seconds\r\n"
    assert codes(text) == ["crash.worker_stuck"]


HEALTHY = """\
[2026-11-29 19:00:01,123][main][INFO] - seed 1, 4 workers, batch size 64
Epoch 1/3:  50%|#####     | 120/240 [00:12<00:12, 9.8it/s, loss=0.31, val_error=0.12]
step 100 loss 0.312 data 0.003 time 0.104 memory 11234 error 0.2 grad_norm 1.2
worker 3 ready; signal handlers installed; shared cache of 12 shards found
Saved checkpoint to /scratch/torch_runs/psm_1/epoch1.pt
torch/optim/lr_scheduler.py:143: UserWarning: Detected call of `lr_scheduler.step()` too early.
  warnings.warn("Detected call of `lr_scheduler.step()`")
FutureWarning: `torch.cuda.amp.autocast(args...)` is deprecated.
INFO retrying after timeout: 30 s; 0 errors so far; exit code 0
Thread pool of 4 threads; killed 0 stale jobs; memory 12 GiB free
Training finished, exit code: 0
"""


@pytest.mark.parametrize("times", [1, 50])
def test_a_healthy_log_tells_of_nothing(times: int) -> None:
    assert explain_text(HEALTHY * times) == ()


@pytest.mark.parametrize(
    "name",
    [
        "fork-with-threads", "workers-and-cpus", "few-workers", "pinning-without-device",
        "iterable-rounding", "leaked-resources", "iterator-in-other-process", "end-of-program",
        "interrupted", "iterable-with-length",
    ],
)  # fmt: skip
def test_harmless_remarks_are_information_at_most(name: str) -> None:
    for text in TEXTS[name]:
        assert {found.severity for found in explain_text(HEALTHY + text)} == {"info"}


def test_a_text_without_any_error_tells_of_nothing() -> None:
    assert explain_text("") == ()
    assert explain_text("\n \n") == ()
    assert explain_text("a\tb\n\x00\x1b[0m\n") == ()


@given(st.text(alphabet=st.sampled_from('Tracebk (mostecnl):\n  File"x.py,in1KyEro\r│\x1b[3m')))
def test_nothing_that_a_text_holds_breaks_it(text: str) -> None:
    log = read_log(text)
    assert (
        sum(len(report.lines) for report in log.reports) <= text.count("\n") + text.count("\r") + 1
    )
    explain_text(text)
    explain_text(f"Traceback (most recent call last):\n{text}")
    explain_text(f'Thread 1 (idle): "MainThread"\n{text}')


def test_many_repeated_tracebacks_are_one_cause() -> None:
    text = in_worker("OSError: image file is truncated (43 bytes not processed)", ITEM) * 300
    (found,) = explain_text(text)
    assert found.times == 300
