"""Who may import whom: read from the sources, imports inside functions too.

The rules are those of the design: data flows one way, people train with `loader` and `remedies`
without the rest, and the parent command never imports torch, so that it answers at once.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

SOURCES = Path(__file__).parent.parent / "src"

# What each room may import of feedrate's other rooms. A room is a module or folder below
# feedrate; "" is the package itself, whose names are loaded when they are used.
ANYTHING = None
PLAIN = {"memory_records", "records", "settings", "units"}
MAY_IMPORT: dict[str, set[str] | None] = {
    "": ANYTHING,
    "__main__": ANYTHING,
    "version": set(),
    "units": set(),
    "settings": set(),
    "errors": set(),
    "memory_records": set(),
    "records": {"memory_records", "settings"},
    "analysis": PLAIN,
    "plan": PLAIN | {"analysis", "errors"},
    "report": PLAIN | {"analysis", "errors"},
    "edit": {"settings", "errors", "records"},
    "store": PLAIN | {"errors"},
    "host": PLAIN | {"errors", "version"},
    "loader": PLAIN | {"errors", "host", "remedies"},
    "remedies": PLAIN | {"errors", "host", "loader"},
    "measure": PLAIN | {"errors", "host", "loader", "plan", "analysis"},
    "doctor": PLAIN | {"errors", "host", "analysis", "measure"},
    "experiments": PLAIN | {"errors", "analysis", "plan"},
    "api": ANYTHING,
    "leak_api": ANYTHING,
    "pytest_plugin": ANYTHING,
    "shown_suite": PLAIN | {"errors", "report", "store"},
    "tune_api": ANYTHING,
    "cli": ANYTHING,
}

# Rooms that compute and nothing else, and what would make them do more.
PURE = {"analysis", "plan", "report", "edit"}
NOT_PURE = {
    "torch", "torchvision", "psutil", "subprocess", "multiprocessing", "threading", "concurrent",
    "asyncio", "signal", "socket", "resource", "time", "platform",
}  # fmt: skip

# Where torch may be imported: what runs in the child, or in the user's own training.
MAY_IMPORT_TORCH = {
    "feedrate.measure.batch",
    "feedrate.measure.cached",
    "feedrate.measure.causes.in_worker",
    "feedrate.measure.child",
    "feedrate.measure.configure",
    "feedrate.measure.device",
    "feedrate.measure.examining",
    "feedrate.measure.hook",
    "feedrate.measure.look",
    "feedrate.measure.loop",
    "feedrate.measure.readiness",
    "feedrate.measure.running",
    "feedrate.measure.target",
    "feedrate.loader",
    "feedrate.remedies",
    "feedrate.experiments.devices",
    "feedrate.experiments.download",
    "feedrate.experiments.fashion_mnist",
    "feedrate.experiments.photo_training",
    "feedrate.experiments.steady_step",
}
TORCH = {"torch", "torchvision"}

# What the parent process runs, and what may be loaded when it has only to print its help.
PARENT = {"feedrate", "feedrate.api", "feedrate.leak_api", "feedrate.tune_api", "feedrate.cli.main"}
HEAVY = {"torch", "torchvision", "scipy", "numpy", "matplotlib", "libcst"}


def read_sources(folder: Path) -> dict[str, ast.Module]:
    modules = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        modules[name] = ast.parse(path.read_text("utf-8"), filename=str(path))
    return modules


def imports(name: str, tree: ast.Module, modules: Mapping[str, object]) -> Iterator[str]:
    """Yield the full name of each module that ``tree`` imports anywhere, ours and others'."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} imports relatively; write the whole name"
            base = node.module or ""
            for alias in node.names:
                full = f"{base}.{alias.name}"
                yield full if full in modules else base


def room(module: str) -> str:
    return module.partition(".")[2].partition(".")[0]


def is_in(module: str, places: set[str]) -> bool:
    return any(module == place or module.startswith(f"{place}.") for place in places)


def broken_rules(modules: Mapping[str, ast.Module]) -> list[str]:
    """Return one sentence for each import that a rule forbids."""
    broken = []
    for name, tree in modules.items():
        own = room(name)
        if own not in MAY_IMPORT:
            broken.append(f"{name} is in a room without a rule")
            continue
        allowed = MAY_IMPORT[own]
        for imported in imports(name, tree, modules):
            other = room(imported)
            if imported == "feedrate" or imported.startswith("feedrate."):
                if allowed is not None and other != own and other not in allowed:
                    broken.append(f"{name} imports {imported}")
            elif is_in(imported, TORCH) and not is_in(name, MAY_IMPORT_TORCH):
                broken.append(f"{name} imports {imported}, and does not run where torch is")
            elif own in PURE and is_in(imported, NOT_PURE):
                broken.append(f"{name} imports {imported}, and is to compute only")
        if own in PURE:
            broken += [
                f"{name} names {node.value}, and is to compute only"
                for node in ast.walk(tree)
                if isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and node.value.startswith("/proc")
            ]
    return broken


def reached(start: set[str], modules: Mapping[str, ast.Module]) -> dict[str, str]:
    """Return every module that ``start`` imports, directly or not, with who imports it first."""
    found = dict.fromkeys(start, "")
    coming = list(start)
    while coming:
        name = coming.pop()
        for imported in imports(name, modules[name], modules):
            if name == "feedrate" and is_in(imported, MAY_IMPORT_TORCH):
                continue  # the package's own names are loaded when they are used
            for module in with_packages(imported):
                if module in modules and module not in found:
                    found[module] = name
                    coming.append(module)
    return found


def with_packages(module: str) -> list[str]:
    """Return a.b.c, a.b and a for a.b.c: importing a module runs its packages first."""
    parts = module.split(".")
    return [".".join(parts[:count]) for count in range(len(parts), 0, -1)]


@pytest.fixture(scope="module")
def modules() -> dict[str, ast.Module]:
    return read_sources(SOURCES)


def test_every_import_is_allowed(modules: dict[str, ast.Module]) -> None:
    assert broken_rules(modules) == []


def test_nothing_that_the_parent_runs_imports_torch(modules: dict[str, ast.Module]) -> None:
    assert set(modules) >= PARENT
    through = reached(PARENT, modules)
    importing = {
        name: through[name]
        for name in through
        if any(is_in(imported, TORCH) for imported in imports(name, modules[name], modules))
    }
    assert importing == {}


def test_the_rules_name_what_there_is(modules: dict[str, ast.Module]) -> None:
    assert {name for name in MAY_IMPORT_TORCH if "." in name.removeprefix("feedrate.")} <= set(
        modules
    )


def test_importing_the_command_loads_nothing_heavy() -> None:
    code = (
        "import sys, json, feedrate, feedrate.cli.main;"
        "print(json.dumps(sorted(name for name in sys.modules if '.' not in name)))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert HEAVY & set(json.loads(answer.stdout)) == set()


@pytest.mark.parametrize(
    ("name", "source", "sentence"),
    [
        ("feedrate.settings", "import feedrate.errors", "feedrate.settings imports"),
        ("feedrate.analysis.x", "from feedrate import errors", "imports feedrate.errors"),
        (
            "feedrate.analysis.x",
            "def f():\n    from feedrate.host import y",
            "imports feedrate.host",
        ),
        ("feedrate.loader.x", "from feedrate.measure import wire", "imports feedrate.measure"),
        ("feedrate.measure.x", "import feedrate.report.text", "imports feedrate.report"),
        ("feedrate.store.x", "import feedrate", "imports feedrate"),
        ("feedrate.cli.x", "def f():\n    import torch.utils.data", "does not run where torch is"),
        ("feedrate.measure.manager", "from torch import nn", "does not run where torch is"),
        ("feedrate.report.x", "from torchvision import io", "does not run where torch is"),
        ("feedrate.plan.x", "from time import monotonic", "is to compute only"),
        ("feedrate.report.x", "PATH = '/proc/self/status'", "is to compute only"),
        ("feedrate.attic.x", "", "is in a room without a rule"),
    ],
)
def test_a_rule_that_is_broken_is_found(name: str, source: str, sentence: str) -> None:
    known = ["feedrate", "feedrate.errors", "feedrate.measure.wire", "feedrate.host.y"]
    modules = {**dict.fromkeys(known, ast.parse("")), name: ast.parse(source)}
    (broken,) = broken_rules(modules)
    assert sentence in broken


def test_what_is_allowed_is_not_found() -> None:
    modules = {
        "feedrate.analysis.x": ast.parse("from feedrate.records import Run\nimport numpy, math"),
        "feedrate.measure.child": ast.parse("import torch\nfrom feedrate.measure import wire"),
        "feedrate.loader.x": ast.parse("import torch"),
        "feedrate.cli.x": ast.parse("import time\nfrom feedrate.report import text"),
    }
    assert broken_rules(modules) == []


def test_a_way_to_torch_is_found_through_other_modules() -> None:
    modules = {
        "feedrate.cli.main": ast.parse("def f():\n    from feedrate import a"),
        "feedrate.a": ast.parse("import feedrate.b"),
        "feedrate.b": ast.parse("import torch"),
        "feedrate.c": ast.parse("import feedrate.d.e"),
        "feedrate.d": ast.parse(""),
        "feedrate.d.e": ast.parse(""),
    }
    assert reached({"feedrate.cli.main"}, modules) == {
        "feedrate.cli.main": "",
        "feedrate.a": "feedrate.cli.main",
        "feedrate.b": "feedrate.a",
    }
    assert reached({"feedrate.c"}, modules).keys() == {"feedrate.c", "feedrate.d", "feedrate.d.e"}
