"""What is told of a script once it is about to iterate its loader, and waiting for its device."""

from __future__ import annotations

from typing import Any

import msgspec
import torch

from feedrate.measure import wire
from feedrate.measure.configure import default_start_method, read_facts
from feedrate.measure.target import Target
from feedrate.measure.versions import versions
from feedrate.records import LoaderFacts


def wait_for_cuda() -> None:
    """Wait for the device where the target has begun to use one."""
    if _uses_cuda():
        torch.cuda.synchronize()


def _uses_cuda() -> bool:
    cuda: Any = torch.cuda
    return bool(cuda.is_initialized())


def read_script_loader(loader: Any, left_out: tuple[str, ...]) -> LoaderFacts:
    """Return what a script's loader is; the body of its loop is the step."""
    return msgspec.structs.replace(read_facts(Target(loader, None), left_out), has_step=True)


def make_ready(seconds: float, facts: LoaderFacts) -> wire.Ready:
    """Return the message that a script is about to iterate its loader, so long after its start."""
    return wire.Ready(
        setup_seconds=seconds,
        facts=facts,
        versions=versions(),
        accelerator=torch.cuda.get_device_name() if _uses_cuda() else None,
        default_start_method=default_start_method(),
    )
