"""The standard texts: what torch, Python and others really print, for each entry of the catalogue.

The messages are those of torch 2.4 to 2.14 and Python 3.10 to 3.14; numbers and paths are made up.
In ``standard_texts/*.txt`` each begins below a line with the name of its entry.
"""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent / "standard_texts"
_MARK = "=== "


def _read() -> dict[str, tuple[str, ...]]:
    texts: dict[str, tuple[str, ...]] = {}
    for path in sorted(_FOLDER.glob("*.txt")):
        for case in f"\n{path.read_text('utf-8')}".split(f"\n{_MARK}")[1:]:
            name, _, text = case.partition("\n")
            texts[name] = (*texts.get(name, ()), text)
    return texts


TEXTS = _read()


def in_worker(last: str, *frames: str) -> str:
    """Return how torch prints a worker's error: the main process's frames, then its own."""
    kind = last.partition(":")[0].rpartition(".")[2]
    own = "".join(f"  {frame}\n    pass\n" for frame in frames)
    packages = "/opt/venv/lib/python3.11/site-packages/torch"
    return (
        "Traceback (most recent call last):\n"
        '  File "/home/user/train.py", line 31, in <module>\n    for batch in loader:\n'
        f'  File "{packages}/utils/data/dataloader.py", line 1555, in _process_data\n'
        "    data.reraise()\n"
        f'  File "{packages}/_utils.py", line 775, in reraise\n    raise exception\n'
        f"{kind}: Caught {kind} in DataLoader worker process 0.\n"
        "Original Traceback (most recent call last):\n"
        f'  File "{packages}/utils/data/_utils/worker.py", line 358, in _worker_loop\n'
        "    data = fetcher.fetch(index)\n"
        f'  File "{packages}/utils/data/_utils/fetch.py", line 54, in fetch\n'
        "    data = [self.dataset[idx] for idx in possibly_batched_index]\n"
        f"{own}{last}\n"
    )


ITEM = 'File "/home/user/data.py", line 12, in __getitem__'
