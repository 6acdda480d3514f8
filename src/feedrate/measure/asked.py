"""What is asked for: a script with its arguments, a function, or an object."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from feedrate.errors import TargetError, UsageError
from feedrate.measure.handover import Handover, hand_over
from feedrate.measure.named import foresee
from feedrate.measure.wire import ChildSpec, ScriptSpec

_LAUNCHERS = {
    "torchrun": ("torchrun", "torch.distributed.run", "torch.distributed.launch"),
    "accelerate launch": ("accelerate", "accelerate.commands.launch"),
}
"""What starts a script once for each rank: names of commands and modules."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be measured: ``shown`` is its name for people, ``file`` what holds its code.

    ``is_object`` says that it was handed over from Python and has no name: nothing is kept of it.
    """

    handover: Handover
    shown: str
    script: ScriptSpec | None = None
    file: str | None = None
    is_object: bool = False


def asked(
    target: Any, step: Any = None, argv: Sequence[str] = (), *, module: bool = False
) -> Asked:
    """Read a target: a script's path, a module's name, ``file.py:name``, or an object.

    Raises:
        UsageError: it is none of these, or the arguments or the step do not go with it.
        TargetError: there is no such file, module or function.
    """
    text = os.fspath(target) if isinstance(target, os.PathLike) else target
    if not isinstance(text, str):
        if argv:
            raise UsageError("arguments go with a script, and the target is an object")
        handover = hand_over(text, step)
        is_object = handover.pickled is not None
        return Asked(handover=handover, shown=handover.target, is_object=is_object)
    place, colon, name = text.rpartition(":")
    if module or not (colon and place and name.isidentifier()):
        return _script(text, argv, step, module=module)
    if argv:
        raise UsageError(
            f"{text} is a function, which takes no arguments: leave {shlex.join(argv)} out"
        )
    foresee(text, step if isinstance(step, str) else None)
    file = place if place.endswith(".py") else f"{place.replace('.', '/')}.py"
    return Asked(handover=hand_over(text, step), shown=text, file=file)


def child_spec(
    what: Asked, *, step_seconds: float | None, device: str, seed: int | None
) -> ChildSpec:
    """Return what a child is told that runs the target as it is; its session is still to be set."""
    return ChildSpec(
        target=what.handover.target,
        pickled=what.handover.pickled,
        step=what.handover.step,
        search_path=what.handover.search_path,
        settings=None,
        epochs=1,
        step_seconds=step_seconds,
        device=device,
        seed=seed,
        script=what.script,
    )


def _refuse_launcher(name: str) -> None:
    """Raise if what is to be tuned is what starts the ranks, and not one of them.

    Raises:
        UsageError: it names the way round.
    """
    for launcher, names in _LAUNCHERS.items():
        if name in names:
            raise UsageError(
                f"{name} only starts the script that trains; let it start feedrate: "
                f"{launcher} -m feedrate tune train.py"
            )


def _script(text: str, argv: Sequence[str], step: Any, *, module: bool) -> Asked:
    if step is not None:
        raise UsageError("a step goes with a function or a loader; a script has its own")
    _refuse_launcher(text if module else Path(text).name)
    if module:
        if not all(part.isidentifier() for part in text.split(".")):
            raise UsageError(f"{text!r} is no module's name; write -m package.module")
    elif not text.endswith(".py"):
        raise UsageError(
            f"cannot read the target {text!r}: write train.py for a script, -m package.module for "
            "a module, file.py:name or package.module:name for a function that returns a loader"
        )
    elif not Path(text).is_file():
        raise TargetError(f"there is no file {text}")
    words = ("-m", text, *argv) if module else (text, *argv)
    return Asked(
        handover=Handover(target=text),
        shown=shlex.join(words),
        script=ScriptSpec(place=text, argv=tuple(argv), module=module),
        file=f"{text.replace('.', '/')}.py" if module else text,
    )
