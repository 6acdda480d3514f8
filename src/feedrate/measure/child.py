"""The child: imports the target, sets up its loader, measures it, and says what it saw.

Started by the executor in a process of its own. Standard input brings the
`ChildSpec` in one line and stays open while the parent lives. Standard output is taken over for
messages; whatever the user's code prints goes to standard error, which the parent keeps.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from feedrate.measure import keeper, wire
from feedrate.measure.conduct import Conductor, run_factory
from feedrate.measure.ranks import become_alone
from feedrate.measure.sender import Sender
from feedrate.measure.stacks import answer_when_asked

if TYPE_CHECKING:
    from feedrate.measure.target import Target
    from feedrate.records import LoaderFacts, RunError

_EXIT_SECONDS = 1.0
"""How long after its pipe has broken a dying worker may take to have an exit code."""

Send = Callable[[wire.Message], None]


def main() -> int:
    """Run one child; return the exit code of the process."""
    spec_line = keeper.read_line(sys.stdin.fileno())
    if not spec_line:
        return 0  # the parent ended before it had said what to measure
    messages = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    answers = keeper.guard(messages) if keeper.AVAILABLE else None
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, sys.stdin.fileno())
    os.close(null)
    answer_when_asked()
    send = Sender(messages, answers)
    spec = msgspec.json.decode(spec_line, type=wire.ChildSpec)
    if spec.session is not None:
        become_alone()
    send(wire.Started(pid=os.getpid()))
    return _measure_or_explain(spec, send)


def _measure_or_explain(spec: wire.ChildSpec, send: Send) -> int:
    state = _State()
    try:
        sys.path[:0] = [folder for folder in spec.search_path if folder not in sys.path]
        if spec.script is not None:
            state.conductor = Conductor(spec, send)
            state.conductor.run_script(spec.script)
        else:
            _measure(spec, send, state)
    except KeyboardInterrupt:
        return 130
    except BaseException as error:
        if state.conductor is not None and state.conductor.is_copy:
            raise
        caught = error
    else:
        return 0
    send(wire.Failed(error=_explain(caught, state)))
    return 1


def _explain(caught: BaseException, state: _State) -> RunError:
    from feedrate.measure.failure import describe_exception, with_exit_codes

    conductor = state.conductor
    facts = state.facts if conductor is None else conductor.facts

    while True:
        try:
            if hasattr(signal, "SIGCHLD"):
                # torch's handler throws again for every worker that ends, also in here.
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            setting_up = facts is None and conductor is None
            error = describe_exception(caught, setting_up=setting_up, facts=facts)
            if error.kind == "worker_died":
                from feedrate.loader.torch_private import worker_exit_codes

                codes = worker_exit_codes(caught.__traceback__, _EXIT_SECONDS)
                error = with_exit_codes(error, codes)
        except RuntimeError:
            continue
        return error if conductor is None else conductor.explained(error)


class _State:
    """How far the child came, for an error that ends it."""

    facts: LoaderFacts | None = None
    conductor: Conductor | None = None


def _measure(spec: wire.ChildSpec, send: Send, state: _State) -> None:
    from feedrate.measure.configure import add_batch, configure, default_start_method, read_facts
    from feedrate.measure.cpu import worker_cpu_seconds
    from feedrate.measure.device import accelerator_name, open_device
    from feedrate.measure.failure import describe_no_batches
    from feedrate.measure.loop import run_epoch
    from feedrate.measure.versions import versions

    device = open_device(spec.device)
    _seed(spec.seed)
    started = time.perf_counter()
    target = _open_target(spec)
    setup_seconds = time.perf_counter() - started
    left_out: tuple[str, ...] = ()
    if spec.settings and spec.session is None:
        left_out = configure(target.loader, spec.settings)
    facts = state.facts = read_facts(target, left_out)
    send(
        wire.Ready(
            setup_seconds=setup_seconds,
            facts=facts,
            versions=versions(),
            accelerator=accelerator_name(),
            default_start_method=default_start_method(),
        )
    )
    step = _choose_step(spec, target, device.move)
    if warm_up := getattr(target.step, "feedrate_warm_up", None):
        warm_up()
        device.synchronize()
    if isinstance(spec.session, wire.Examine):
        from feedrate.measure.examining.running import examine_factory

        is_step = target.step is not None or bool(spec.step_seconds)
        examine_factory(spec.session, send, target.loader, step if is_step else None)
        return
    if spec.session is not None:
        run_factory(spec, send, target.loader, step, device)
        return

    def on_first(batch: Any) -> None:
        nonlocal facts
        facts = state.facts = add_batch(facts, batch)
        # said before its step too: a first step that hangs is not a batch that did not come
        send(wire.Progress(epoch=epoch, batches=1))

    def on_progress(batches: int) -> None:
        send(wire.Progress(epoch=epoch, batches=batches))
        device.look()

    limit = spec.max_batches
    if limit is not None and facts.length is not None and limit >= facts.length:
        limit = None  # nothing is cut
    for epoch in range(spec.epochs):
        workers_before = worker_cpu_seconds()
        main_before = time.process_time()
        measured = run_epoch(
            target.loader,
            step,
            clock=time.perf_counter,
            synchronize=device.synchronize,
            on_progress=on_progress,
            on_first=on_first if epoch == 0 else None,
            max_batches=limit,
        )
        main_cpu = time.process_time() - main_before
        workers_after = worker_cpu_seconds()
        worker_cpu = None
        if workers_before is not None and workers_after is not None:
            worker_cpu = max(0.0, workers_after - workers_before)
        if measured.batches == 0:
            send(wire.Failed(error=describe_no_batches(facts)))
            return
        send(
            wire.EpochDone(
                facts=facts,
                epoch=msgspec.structs.replace(
                    measured, main_cpu_seconds=main_cpu, worker_cpu_seconds=worker_cpu
                ),
            )
        )
    send(wire.Finished(device=device.peaks()))


def _open_target(spec: wire.ChildSpec) -> Target:
    from feedrate.errors import TargetError
    from feedrate.measure.named import split_target
    from feedrate.measure.target import find_attribute, interpret, load_module

    step = None
    if spec.pickled is not None:
        import cloudpickle

        value, step = cloudpickle.loads(wire.unpack_object(spec.pickled))
        described = spec.target
    else:
        place, name = split_target(spec.target)
        module = load_module(place)
        value = find_attribute(module, place, name)
        described = f"{name}()" if _is_factory(value) else name
        if spec.step is not None:
            step = find_attribute(module, place, spec.step)
            if not callable(step):
                raise TargetError(f"step {spec.step} (--step) is no function in {place}")
    if _is_factory(value):
        value = value(**spec.arguments)
    target = interpret(value, described)
    return target if step is None else target._replace(step=step)


def _is_factory(value: Any) -> bool:
    """Tell a function from the loader or dataset itself, which may be callable too."""
    from torch.utils.data import DataLoader, Dataset

    is_data = isinstance(value, DataLoader | Dataset) or hasattr(type(value), "__getitem__")
    return callable(value) and not is_data


def _choose_step(
    spec: wire.ChildSpec, target: Target, move: Callable[[Any], Any]
) -> Callable[[Any], object] | None:
    """Return the target's step, else a copy to the device and the simulated step."""
    if target.step is not None:
        return target.step
    seconds = spec.step_seconds

    def step(batch: Any) -> None:
        move(batch)
        if seconds:
            time.sleep(seconds)

    return step


def _seed(seed: int | None) -> None:
    if seed is None:
        return
    import numpy as np
    import torch

    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)
