"""``feedrate apply``, as it is called."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner, Result

pytest.importorskip("libcst")

from builders import make_facts, make_suite
from feedrate import store
from feedrate.cli import editing
from feedrate.cli.main import app
from feedrate.errors import FeedrateError, MissingExtra, OutputError, TargetError, UsageError
from feedrate.records import LoaderUse, Recommendation
from feedrate.settings import LoaderSettings

SCRIPT = b"""from torch.utils.data import DataLoader

loader = DataLoader(ds, num_workers=2, pin_memory=pin)
"""
CHANGED = SCRIPT.replace(b"num_workers=2", b"num_workers=8")
DIFF = "\n".join(
    (
        "--- train.py",
        "+++ train.py",
        "@@ -1,3 +1,3 @@",
        " from torch.utils.data import DataLoader",
        " ",
        "-loader = DataLoader(ds, num_workers=2, pin_memory=pin)",
        "+loader = DataLoader(ds, num_workers=8, pin_memory=pin)",
        "",
    )
)
NEXT = "next:  feedrate apply result.json --write\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Be in a folder with a script and a result about it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_bytes(SCRIPT)
    recommend()
    return tmp_path


def recommend(path: str = "result.json", **changes: Any) -> None:
    fields: dict[str, Any] = {
        "settings": LoaderSettings(num_workers=8),
        "file": str(Path("train.py").absolute()),
        "line_number": 3,
        "line": "num_workers=8",
    }
    suite = make_suite(rates={2: [100.0]})
    suite = msgspec.structs.replace(
        suite, kind="tune", recommendation=Recommendation(**(fields | changes))
    )
    store.save(suite, path, force=True)


def apply(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["apply", "result.json", *arguments])


def refused(kind: type[FeedrateError], *arguments: str) -> str:
    result = apply(*arguments)
    assert type(result.exception) is kind
    assert result.stdout == ""
    return str(result.exception)


def test_the_change_is_shown_and_nothing_is_touched(folder: Path) -> None:
    before = (folder / "train.py").stat()
    result = apply()
    assert result.exit_code == 0, result.output
    assert (result.stdout, result.stderr) == (DIFF, NEXT)
    after = (folder / "train.py").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert sorted(path.name for path in folder.iterdir()) == ["result.json", "train.py"]


def test_the_change_is_made_and_a_second_time_there_is_none(folder: Path) -> None:
    result = apply("train.py", "--write")
    assert (result.stdout, result.stderr) == (DIFF, "written: train.py, line 3\n")
    assert (folder / "train.py").read_bytes() == CHANGED
    for options in ([], ["--write"]):
        again = apply(*options)
        assert (again.exit_code, again.stdout) == (0, "")
        assert again.stderr == "train.py, line 3, has the recommended settings already\n"
    assert (folder / "train.py").read_bytes() == CHANGED
    assert sorted(path.name for path in folder.iterdir()) == ["result.json", "train.py"]


def test_what_is_left_to_the_user_is_said(folder: Path) -> None:
    recommend(settings=LoaderSettings(num_workers=2, pin_memory=True))
    result = apply("--write")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "pin_memory comes from pin: let it be True.\n"
    assert (folder / "train.py").read_bytes() == SCRIPT


def test_the_next_command_names_the_same_files(folder: Path) -> None:
    (folder / "my copy").mkdir()
    (folder / "my copy" / "train.py").write_bytes(SCRIPT)
    result = apply("my copy/train.py")
    assert result.stdout == DIFF.replace("train.py", "my copy/train.py")
    assert result.stderr == "next:  feedrate apply result.json 'my copy/train.py' --write\n"


@pytest.mark.parametrize(
    "content",
    [
        SCRIPT.replace(b"\n", b"\r\n"),
        b"\xef\xbb\xbf" + SCRIPT,
        b"# coding: latin-1\n# \xe9\n" + SCRIPT,
        "# é\n".encode() + SCRIPT.rstrip(b"\n"),
        SCRIPT + b"\tif",
    ],
)
def test_the_rest_of_the_file_is_kept_to_the_byte(folder: Path, content: bytes) -> None:
    if content.endswith(b"\tif"):
        content = content.removesuffix(b"\tif") + b"if x:\n\ty = 1\x0c\n"
    (folder / "train.py").write_bytes(content)
    line = content[: content.index(b"loader =")].count(b"\n") + 1
    recommend(line_number=line)
    shown = apply()
    assert shown.exit_code == 0, shown.output
    (folder / "a.patch").write_bytes(shown.stdout_bytes)
    assert apply("--write").exit_code == 0
    after = content.replace(b"num_workers=2", b"num_workers=8")
    assert (folder / "train.py").read_bytes() == after
    (folder / "train.py").write_bytes(content)
    if shutil.which("patch") is None:
        return
    subprocess.run(["patch", "--binary", "-p0", "-i", "a.patch"], check=True, capture_output=True)
    assert (folder / "train.py").read_bytes() == after


def test_what_a_link_leads_to_is_edited_and_its_permissions_stay(folder: Path) -> None:
    (folder / "src").mkdir()
    (folder / "train.py").rename(folder / "src" / "real.py")
    (folder / "src" / "real.py").chmod(0o750)
    (folder / "train.py").symlink_to("src/real.py")
    assert apply("--write").exit_code == 0
    assert (folder / "train.py").is_symlink()
    assert (folder / "src" / "real.py").read_bytes() == CHANGED
    assert stat.S_IMODE((folder / "src" / "real.py").stat().st_mode) == 0o750
    assert [path.name for path in (folder / "src").iterdir()] == ["real.py"]


def test_a_file_that_cannot_be_replaced_is_left_whole(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    result = apply("--write")
    assert isinstance(result.exception, OutputError)
    assert str(result.exception) == (
        "train.py cannot be written (No space left on device) and is left as it was: apply the "
        "diff by hand"
    )
    assert result.stdout == DIFF
    assert (folder / "train.py").read_bytes() == SCRIPT
    assert sorted(path.name for path in folder.iterdir()) == ["result.json", "train.py"]


def test_a_file_that_was_changed_meanwhile_is_left_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        editing, "_print_diff", lambda *_: (folder / "train.py").write_bytes(b"mine")
    )
    result = apply("--write")
    assert isinstance(result.exception, OutputError)
    assert "was changed meanwhile and is left as it is" in str(result.exception)
    assert (folder / "train.py").read_bytes() == b"mine"


def test_a_file_that_is_read_only_is_left_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)  # root may write all
    result = apply("--write")
    assert isinstance(result.exception, OutputError)
    assert str(result.exception) == (
        "train.py is read-only: make it writable, or apply the diff by hand"
    )
    assert (folder / "train.py").read_bytes() == SCRIPT


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("tune", "result.json recommends no change: keep your settings\n"),
        (
            "bench",
            "result.json recommends nothing to apply: feedrate tune finds and confirms settings\n",
        ),
    ],
)
def test_a_result_without_a_recommendation(folder: Path, kind: str, sentence: str) -> None:
    suite = msgspec.structs.replace(make_suite(rates={2: [100.0]}), kind=kind)
    store.save(suite, "result.json", force=True)
    result = apply("train.py", "--write")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", sentence)
    assert (folder / "train.py").read_bytes() == SCRIPT


def test_a_loader_that_is_not_made_in_the_users_code(folder: Path) -> None:
    recommend(file=None, line_number=None)
    assert refused(TargetError) == (
        "the loader that result.json is about is not made in your code: give it num_workers=8 there"
    )


def test_a_loader_that_was_made_at_a_prompt(folder: Path) -> None:
    recommend(file="<stdin>", line_number=3)
    assert refused(TargetError) == (
        "the loader that result.json is about was made at a prompt and not in a file: give it "
        "num_workers=8"
    )


def test_another_file_than_the_one_that_makes_the_loader(folder: Path) -> None:
    (folder / "main.py").write_bytes(SCRIPT)
    assert refused(UsageError, "main.py") == (
        "the loader is not made in main.py but in train.py, line 3: name that file, or none"
    )


def test_a_file_that_is_not_there(folder: Path) -> None:
    (folder / "train.py").unlink()
    assert refused(TargetError) == "there is no file train.py; name the one that makes the loader"
    (folder / "train.py").mkdir()
    assert refused(TargetError).startswith("train.py cannot be read (")


@pytest.mark.parametrize(
    "content", [b"# coding: nonsense\n", b"# \xe9\n", b"# coding: utf-7\n+AGE-"]
)
def test_bytes_that_are_no_source(folder: Path, content: bytes) -> None:
    (folder / "train.py").write_bytes(content)
    assert refused(TargetError).endswith("make the change by hand")


def test_a_call_that_moved_is_said(folder: Path) -> None:
    (folder / "train.py").write_bytes(b"import os\n" + SCRIPT)
    result = apply()
    assert "+loader = DataLoader(ds, num_workers=8, pin_memory=pin)\n" in result.stdout
    assert result.stderr == (
        f"The call was on line 3 and is on line 4 now: see that it is the one.\n{NEXT}"
    )


def test_a_newer_file_with_several_calls_is_said(folder: Path) -> None:
    (folder / "train.py").write_bytes(SCRIPT + SCRIPT.splitlines(keepends=True)[-1])
    doubt = "train.py was changed after it was measured: see that line 3 is the one.\n"
    assert apply().stderr == doubt + NEXT
    os.utime("train.py", (0, 0))
    assert apply().stderr == NEXT


def test_what_the_measured_loader_had_tells_its_call(folder: Path) -> None:
    (folder / "train.py").write_bytes(
        SCRIPT.splitlines(keepends=True)[0] + b"val = DataLoader(ds, 256, num_workers=2)\n" + SCRIPT
    )
    use = LoaderUse(
        number=0,
        file=str(folder / "train.py"),
        line=2,
        facts=make_facts(2, batch_size=1),
        epochs=1,
        complete_epochs=0,
        batches=9,
        optimizer_steps=9,
    )
    recommend(line_number=2)
    suite = store.load("result.json")
    (benchmark,) = suite.benchmarks
    runs = tuple(msgspec.structs.replace(run, loaders=(use,)) for run in benchmark.runs)
    suite = msgspec.structs.replace(
        suite, benchmarks=(msgspec.structs.replace(benchmark, runs=runs),)
    )
    store.save(suite, "result.json", force=True)
    assert "is on line 5 now" in apply("--write").stderr
    assert (folder / "train.py").read_bytes().endswith(CHANGED)


def test_without_libcst_it_says_how_to_install_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(editing, "find_spec", lambda name: None)
    assert refused(MissingExtra) == (
        "feedrate apply needs LibCST: run pip install 'feedrate[apply]'"
    )
