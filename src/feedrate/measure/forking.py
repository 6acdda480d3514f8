"""What happens in the process that children are forked from: torch is imported, and nothing run.

Nothing of a target was ever in it, and nothing of one child is seen by the next. NumPy's generator
is seeded anew in each, as Python does with its own. What the children have in common is the layout
of memory and the seed of Python's hashes.

A copy cannot use an accelerator that the original has touched, and only a process without threads
is copied whole. Where torch sees an accelerator, or its import has left a thread behind, this
process ends, and children begin with an interpreter of their own.
"""

from __future__ import annotations

import os
import socket
import sys
import warnings
from pathlib import Path

from feedrate.measure.fork_server import FORK, LONGEST, READY

_PIPES = 3


def serve() -> None:
    """Fork a child for each order on standard input; return in each of them, and only there.

    An order comes with the descriptors of its child's standard input, output and error. It is
    answered with the child's process id, and when that has ended with its exit code and the CPU
    seconds of all of it. The process ends with its parent.
    """
    orders = socket.socket(fileno=os.dup(sys.stdin.fileno()))
    _prepare()
    if not _can_be_copied():
        os._exit(1)
    try:
        orders.send(READY)
        while True:
            order, pipes, _, _ = socket.recv_fds(orders, LONGEST, _PIPES)
            if order != FORK:
                os._exit(0)
            pid = _fork()
            if pid == 0:
                break
            for each in pipes:
                os.close(each)
            orders.send(b"%d" % pid)
            _, status, usage = os.wait4(pid, 0)
            cpu_seconds = usage.ru_utime + usage.ru_stime
            orders.send(b"%d %.6f" % (os.waitstatus_to_exitcode(status), cpu_seconds))
    except OSError:  # the parent is gone, or no process can be started
        os._exit(1)
    _become_child(orders, pipes)


def _prepare() -> None:
    """Import what a child does before it imports its target."""
    import feedrate.measure.child
    import feedrate.measure.configure
    import feedrate.measure.failure
    import feedrate.measure.hook
    import feedrate.measure.look
    import feedrate.measure.ramp
    import feedrate.measure.static
    import feedrate.measure.target
    import feedrate.measure.versions  # noqa: F401


def _can_be_copied() -> bool:
    """Tell whether torch sees no accelerator, which only a copy may ask, and no thread runs."""
    pid = _fork()
    if pid == 0:
        code = 1
        try:
            from feedrate.measure.device import accelerator_name

            code = 0 if accelerator_name() is None else 1
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    # NumPy's pool of threads ends with the first fork, and comes back where it is used
    return status == 0 and len(list(Path("/proc/self/task").iterdir())) == 1


def _fork() -> int:
    with warnings.catch_warnings():
        # Python 3.12 warns of threads, which are counted here
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _become_child(orders: socket.socket, pipes: list[int]) -> None:
    orders.close()
    os.setsid()
    for target, pipe in enumerate(pipes):
        os.dup2(pipe, target)
        os.close(pipe)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed()
