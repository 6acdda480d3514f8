"""``feedrate demo``: a folder of photographs and a script that trains on them, tuned."""

from __future__ import annotations

import shlex
from importlib.resources import files
from pathlib import Path

import msgspec

from feedrate import store
from feedrate.cli.output import open_output
from feedrate.cli.terminal import notices
from feedrate.cli.tune_progress import tune_progress
from feedrate.errors import FormatError, OutputError, UsageError
from feedrate.measure.asked import asked
from feedrate.measure.tune_watcher import TuneWatcher
from feedrate.records import Suite

DEMO = "demo"
BUDGET_SECONDS = 42.0
"""What a look, a ramp and two confirmations of both settings take where a child needs four seconds
to import torch and torchvision; with the photographs and the figure, less than a minute."""
_EPOCHS = 10_000
"""More than any machine trains in that time: the tune ends the script."""


def run_demo(folder: Path, *, verbose: bool) -> Suite:
    """Make the photographs and the script, tune it, and show everything.

    Raises:
        UsageError: the folder holds what is no demo's, which would be replaced.
        OutputError: something cannot be written to the folder.
        FeedrateError: as `feedrate.tune` does.
    """
    from feedrate import tune_api
    from feedrate.experiments.photos import make_photos

    if stranger := _stranger_in(folder):
        raise UsageError(f"{stranger} is not the demo's: name another folder with --folder")
    make_photos(folder / "photos")
    script = _write_script(folder)
    what = asked(str(script), argv=("--epochs", str(_EPOCHS)))
    what = msgspec.structs.replace(what, shown=f"{DEMO} ({shlex.quote(str(script))})")
    with open_output(
        folder / "result.json", folder / "figure.png", force=True, verbose=verbose, kind="tune"
    ) as out:

        def measure(watcher: TuneWatcher) -> Suite:
            return tune_api.tune_asked(
                what,
                budget=BUDGET_SECONDS,
                loader=None,
                max_workers=None,
                max_ram=None,
                max_shm=None,
                tolerance=0.03,
                step_ms=None,
                device="auto",
                seed=None,
                timeout=300.0,
                fresh=True,
                keep_profile=False,
                save=out.save,
                watcher=watcher,
            )

        return out.watched(tune_progress(notices(), BUDGET_SECONDS), measure)


def _write_script(folder: Path) -> Path:
    """Write the training script, and return its path.

    Raises:
        OutputError: it cannot be written.
    """
    path = folder / "train.py"
    try:
        path.write_text(_source(), encoding="utf-8")
    except OSError as error:
        raise OutputError(
            f"cannot write the demo's script {path} ({error.strerror or error}): run it in a "
            "folder that can be written to"
        ) from error
    return path


def _source() -> str:
    return (files("feedrate.experiments") / "photo_training.py").read_text(encoding="utf-8")


def _stranger_in(folder: Path) -> Path | None:
    """Return what a demo would replace or measure in a folder and no demo has made, if anything."""
    from feedrate.experiments.photos import CLASSES

    result, figure, script = folder / "result.json", folder / "figure.png", folder / "train.py"
    if result.exists():
        try:
            if store.load(result).metadata.target.partition(" ")[0] != DEMO:
                return result
        except FormatError:
            return result
    elif figure.exists():
        return figure
    if script.exists() and not _is_own(script):
        return script
    photos = (folder / "photos").glob("*")
    return next((each for each in sorted(photos) if each.name not in CLASSES), None)


def _is_own(script: Path) -> bool:
    """Tell a copy of the demo's script by its first line; feedrate apply may have changed it."""
    try:
        first = script.read_text(encoding="utf-8").partition("\n")[0]
    except (OSError, ValueError):
        return False
    return first == _source().partition("\n")[0]
