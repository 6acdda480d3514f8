"""A script under feedrate sees what it sees under Python."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TARGETS = Path(__file__).parents[1] / "targets"
RUN = (
    "import sys\n"
    "if sys.path[:1] == ['']: del sys.path[0]\n"
    "from feedrate.measure.script import run_script\n"
    "from feedrate.measure.wire import ScriptSpec\n"
    "run_script(ScriptSpec(place=sys.argv[1], argv=tuple(sys.argv[3:]), module=sys.argv[2] == 'm'))"
)


def run(*words: str, cwd: Path, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        check=False,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
        **options,
    )


def with_and_without(*words: str, cwd: Path) -> tuple[Any, Any]:
    """Return what Python and what `run_script` print, decoded."""
    is_module = words[0] == "-m"
    place, *argv = words[1:] if is_module else words
    plain = run(*words, cwd=cwd)
    ours = run("-c", RUN, place, "m" if is_module else "f", *argv, cwd=cwd)
    assert plain.stderr == ours.stderr == ""
    return json.loads(plain.stdout), json.loads(ours.stdout)


def test_a_script_by_its_whole_path(tmp_path: Path) -> None:
    plain, ours = with_and_without(
        str(TARGETS / "script_shows_itself.py"), "--lr", "1", cwd=tmp_path
    )
    assert ours == plain
    assert ours["argv"][1:] == ["--lr", "1"]
    assert not ours["torch"]
    assert not ours["numpy"]


def test_a_script_by_a_relative_path_and_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "link.py").symlink_to(TARGETS / "script_shows_itself.py")
    for name in ("link.py", "code/../link.py"):
        plain, ours = with_and_without(name, cwd=tmp_path)
        assert ours == plain


@pytest.mark.parametrize("name", ["package.train", "package"])
def test_a_module(tmp_path: Path, name: str) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    shown = (TARGETS / "script_shows_itself.py").read_text("utf-8")
    (package / "train.py").write_text(shown)
    (package / "__main__.py").write_text(shown)
    plain, ours = with_and_without("-m", name, "x", cwd=tmp_path)
    assert ours == plain
    assert ours["spec"][1] == "package"


def test_spawned_processes_find_the_script_again(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import multiprocessing\n"
        "def work(): print('worked', __name__)\n"
        "if __name__ == '__main__':\n"
        "    process = multiprocessing.get_context('spawn').Process(target=work)\n"
        "    process.start(); process.join(); print('ended', process.exitcode)\n"
    )
    plain = run("train.py", cwd=tmp_path)
    ours = run("-c", RUN, "train.py", "f", cwd=tmp_path)
    assert (ours.stdout, ours.stderr) == (plain.stdout, plain.stderr)
    assert ours.stdout == "worked __mp_main__\nended 0\n"


@pytest.mark.parametrize(
    ("source", "code"),
    [("import sys; sys.exit(7)", 7), ("raise SystemExit('no data')", 1), ("1/0", 1), ("(", 1)],
)
def test_the_scripts_own_end(tmp_path: Path, source: str, code: int) -> None:
    (tmp_path / "train.py").write_text(source)
    plain = run("train.py", cwd=tmp_path)
    ours = run("-c", RUN, "train.py", "f", cwd=tmp_path)
    assert ours.returncode == plain.returncode == code
    assert ours.stderr.splitlines()[-1:] == plain.stderr.splitlines()[-1:]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("nowhere.py", "f"), "nowhere.py cannot be read (No such file or directory)"),
        ((".", "f"), ". is a folder: name the script in it"),
        (("nowhere", "m"), "there is no module nowhere that can be run as python -m does"),
        (("json.nowhere", "m"), "there is no module json.nowhere that can be run"),
        (("json.decoder.x", "m"), "there is no module json.decoder.x that can be run"),
    ],
)
def test_what_is_not_there(tmp_path: Path, words: tuple[str, str], sentence: str) -> None:
    ours = run("-c", RUN, *words, cwd=tmp_path)
    assert f"TargetError: {sentence}" in ours.stderr


def test_what_is_to_be_done_after_an_import_waits_for_it(tmp_path: Path) -> None:
    (tmp_path / "late.py").write_text("print('imported', __name__, __spec__.loader is __loader__)")
    code = (
        "import sys\n"
        "from feedrate.measure.after_import import after_import\n"
        "before = list(sys.meta_path)\n"
        "after_import('late', lambda: print('done', 'late' in sys.modules))\n"
        "import json, late\n"
        "import late as again\n"
        "print(type(late.__loader__).__name__, sys.meta_path == before)\n"
        "after_import('late', lambda: print('at once'))\n"
    )
    answer = run("-c", code, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(tmp_path)})
    assert answer.stdout.splitlines() == [
        "imported late True",
        "done True",
        "SourceFileLoader True",
        "at once",
    ], answer.stderr
