"""The second pass: what grows inside the one process that is known to grow, and what holds it.

It costs time and memory (tracemalloc), so it runs after the watch, in a child of its own or at the
watch's end, in the guilty process alone:

- the main process: make an `Inspector`, call ``passed(items)`` after every step and
  ``epoch_ended()`` when the loader has come to its end, until ``is_over``; then ``inspection``.
- a worker: ``probe = probe_worker(loader, worker=0, seconds=10)`` before the loader is iterated,
  then iterate it as usual, until ``probe.is_over`` or the time is up; then ``probe.inspection()``,
  and ``probe.close()``.
- `find_causes` does either for a loader and a step, epoch after epoch.
- `CausesSession` does either around a target's own loop; `Causes` says in which process, and
  `Caused` is the message with what was seen.

``expected``, the bytes per item by which the watch saw the process grow, should be given where it
is known: with it a cache is named too that is full before there are looks enough.

All of them give an `Inspection`: what a `MemoryWatch` takes as ``causes`` and ``objects``. None
of them changes the loader's seeds, order or items. Importing this package does not import torch.
"""
