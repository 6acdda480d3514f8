from __future__ import annotations

import importlib
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

from builders import make_benchmark, make_metadata, make_run, make_suite
from feedrate import store
from feedrate.records import Suite


@pytest.fixture
def page() -> ModuleType:
    return importlib.import_module("published")


@pytest.fixture
def figures(page: ModuleType) -> Any:
    return importlib.import_module("published_figures")


def measured(**metadata: Any) -> Suite:
    common: dict[str, Any] = {"prefetch_factor": 2, "persistent_workers": True}
    benchmarks = []
    for condition, rates in (
        ("light", {0: 1000, 1: 1500, 2: 2000, 4: 2010}),
        ("augmented", {0: 100, 1: 120, 2: 210, 4: 200}),
    ):
        for count, rate in rates.items():
            settings = common if count else {}
            benchmarks.append(
                make_benchmark(count, [rate], condition=condition, pin_memory=True, **settings)
            )
    for count, values in {
        1: [119, 120, 121, 120, 120],
        2: [188, 190, 189, 191, 190],
        4: [191, 190, 192, 190, 191],
    }.items():
        benchmarks.append(
            make_benchmark(
                count, values, condition="augmented", part="repeated", pin_memory=True, **common
            )
        )
    for pin, values in ((False, [201, 200, 199]), (True, [200, 201, 200])):
        benchmarks.append(
            make_benchmark(
                4, values, condition="augmented", part="pin_memory", pin_memory=pin, **common
            )
        )
    fields = {"target": "fashion-mnist (synthetic images)"} | metadata
    return make_suite(benchmarks, metadata=make_metadata(**fields))


def table_rows(text: str, heading: str) -> dict[str, list[str]]:
    """The rows of the first table after a heading, by their first cell."""
    lines = text.partition(heading)[2].lstrip().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("|"))
    rows = {}
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        first, *rest = [cell.strip() for cell in line.strip("|").split("|")]
        rows[first] = rest
    return rows


def test_the_reference_is_read_whole(figures: Any) -> None:
    published = figures.read()
    light, augmented = published.conditions["light"], published.conditions["augmented"]
    assert light.sweep[12] == 119_045
    assert light.sweep[1] == pytest.approx(60_000 / 1.910)
    assert list(light.sweep) == [0, 1, 2, 4, 8, 12, 16]
    assert augmented.repeated[12] == figures.Spread(62_103, 61_716, 62_660, 5)
    assert augmented.pin_memory[True].median == 1.635
    assert augmented.times[16].cold == 1.055
    assert augmented.conclusions.plateau_start == 12


def test_the_given_rates_agree_with_the_given_times(figures: Any) -> None:
    """The reference is consistent with itself, so that ratios of its figures mean something."""
    augmented = figures.read().conditions["augmented"]
    for count, times in augmented.times.items():
        assert augmented.sweep[count] == pytest.approx(60_000 / times.warm, rel=1e-3)


def test_the_sweep_s_figures_stand_side_by_side(page: ModuleType, figures: Any) -> None:
    rows = table_rows(page.render(measured(), figures.read()), "## Light")
    assert list(rows) == ["0", "1", "2", "4", "8", "12", "16"]
    published, here, speedup, own_speedup, ratio, first, own_first = rows["2"]
    assert (published, here) == ("60,881", "2,000")
    assert (speedup, own_speedup) == ("2.01×", "2.00×")
    assert ratio == "0.99×"
    assert (first, own_first) == ("–", "1.25×")  # builders: the first epoch takes 1 / 0.8
    assert rows["16"][1] == "–"
    assert rows["1"][5] == "1.76×"  # 3.371 s over 1.910 s


def test_repeats_are_medians_with_their_range(page: ModuleType, figures: Any) -> None:
    text = page.render(measured(), figures.read())
    assert "Repeated in rotated order, runs of each: published 5, here 5." in text
    rows = table_rows(text, "Repeated in rotated order")
    assert rows["2"] == ["–", "190 (188–191)"]
    assert rows["12"] == ["62,103 (61,716–62,660)", "–"]


def test_pin_memory_cannot_matter_without_an_accelerator(page: ModuleType, figures: Any) -> None:
    rows = table_rows(page.render(measured(), figures.read()), "## Conclusions")
    assert rows["augmented: pin_memory"][1].startswith("cannot matter")
    on_gpu = page.render(measured(accelerator="Example GPU"), figures.read())
    assert table_rows(on_gpu, "## Conclusions")["augmented: pin_memory"][1].startswith(
        "no difference: on over off 1.00×"
    )


def test_conclusions_are_those_of_the_analysis(page: ModuleType, figures: Any) -> None:
    rows = table_rows(page.render(measured(), figures.read()), "## Conclusions")
    assert rows["light: plateau start"] == ["12 workers", "2 workers, not settled by the runs"]
    assert rows["light: fastest region"] == ["8, 12 workers", "2, 4 workers"]
    assert rows["light: balanced choice"] == ["4 workers", "2 workers"]
    assert rows["augmented: plateau start"] == ["12 workers", "2 workers"]
    assert rows["augmented: balanced choice"] == ["–", "2 workers"]


def test_differences_are_computed_from_the_result(page: ModuleType, figures: Any) -> None:
    text = page.render(measured(), figures.read()).partition("## What differs")[2]
    # builders: 2 usable CPUs; a quarter of the time is waiting
    assert "2 usable here, 28 there" in text
    assert "4 workers of the sweep are 2.00× the usable CPUs" in text
    assert "waits for data 25 % of the time" in text
    assert "at most 1.33× as fast" in text
    # 0.8 CPU seconds for 20 batches are 40 ms each: 2 CPUs x 256 / 40 ms = 12,800 images/s
    assert "a batch costs 40.0 ms of CPU time" in text
    assert "cannot pass 12,800 images/s" in text
    # 190 of 210 here at 2 workers, 55,196 of 70,398 there at 8
    assert "0.78× there (augmented, 8 workers) and 0.90× here (augmented, 2 workers)" in text
    assert "Synthetic images" in text
    assert "1,280 images here, 60,000 there" in text
    assert "one of the CPUs that the workers use" in text


def test_an_accelerator_is_named(page: ModuleType, figures: Any) -> None:
    suite = measured(accelerator="Example GPU", target="fashion-mnist", usable_cpus=16.0)
    text = page.render(suite, figures.read())
    assert "It runs on Example GPU here" in text
    assert "Synthetic images" not in text
    assert "this machine has enough" in text


def test_a_part_that_was_not_measured_is_said_or_left_out(page: ModuleType, figures: Any) -> None:
    suite = make_suite(
        [make_benchmark(2, runs=[make_run(100.0)], condition="light", persistent_workers=True)]
    )
    text = page.render(suite, figures.read())
    assert "Not measured here." in text
    assert "pin_memory`, seconds" not in text
    assert table_rows(text, "## Light")["2"][3] == "–"  # no 0 workers to compare with


def test_every_row_of_a_table_has_as_many_cells(page: ModuleType, figures: Any) -> None:
    lines = page.render(measured(), figures.read()).splitlines()
    widths: list[set[int]] = [set()]
    for line in lines:
        if line.startswith("|"):
            widths[-1].add(len(re.findall(r"\|", line)))
        elif widths[-1]:
            widths.append(set())
    tables = [found for found in widths if found]
    assert len(tables) == 6
    assert all(len(found) == 1 for found in tables)


def test_the_command_writes_the_page(
    page: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any
) -> None:
    monkeypatch.setattr(page, "RESULT", tmp_path / "published.json")
    monkeypatch.setattr(page, "BOTH", tmp_path / "published_loaders.json")
    monkeypatch.setattr(page, "PAGE", tmp_path / "published.md")
    store.save(with_both(), tmp_path / "published_loaders.json")
    assert page.main() == 6
    assert "feedrate bench fashion-mnist" in capsys.readouterr().err
    store.save(measured(), tmp_path / "published.json")
    assert page.main() == 0
    assert (tmp_path / "published.md").read_text(encoding="utf-8").startswith("# The published")


def test_the_page_can_be_made_from_the_file_alone(page: ModuleType, figures: Any) -> None:
    suite = measured()
    again = store.decode(store.encode(suite), "result.json")
    assert msgspec.json.encode(again) == msgspec.json.encode(suite)
    assert page.render(again, figures.read()) == page.render(suite, figures.read())


def with_both() -> Suite:
    """The suite with ten times torch's rates for feedrate's loader."""
    suite = measured()
    benchmarks = []
    for benchmark in suite.benchmarks:
        if benchmark.settings.num_workers == 0:
            benchmarks.append(benchmark)
            continue
        for loader, factor in (("torch", 1.0), ("feedrate", 10.0)):
            settings = msgspec.structs.replace(benchmark.settings, loader=loader)
            runs = tuple(
                make_run(
                    factor * sum(e.items for e in run.epochs[1:]) / run.epochs[1].seconds,
                    num_workers=settings.num_workers,
                    repeat=run.repeat,
                )
                for run in benchmark.runs
            )
            benchmarks.append(msgspec.structs.replace(benchmark, settings=settings, runs=runs))
    return make_suite(benchmarks, metadata=suite.metadata)


def test_only_torchs_loader_is_held_against_the_published_figures(
    page: ModuleType, figures: Any
) -> None:
    alone = page.render(measured(), figures.read())
    both = page.render(with_both(), figures.read())
    section = both[both.index("## The same with feedrate's loader") : both.index("## What differs")]
    assert both.replace(section, "") == alone
    assert "feedrate's loader" not in alone


def test_feedrates_loader_may_be_in_a_run_of_its_own(page: ModuleType, figures: Any) -> None:
    one = page.render(with_both(), figures.read())
    assert page.render(measured(), figures.read(), with_both()) == one


def test_feedrates_loader_stands_beside_torchs(page: ModuleType, figures: Any) -> None:
    section = page.render(with_both(), figures.read()).partition("## The same with")[2]
    rows = table_rows(section, "Light, images/s of warm epochs:")
    assert rows["2"] == ["2,000", "20,000", "10.0×", "–"]
    rows = table_rows(section, "Augmented, images/s of warm epochs:")
    assert rows["2"][:2] == ["190 (188–191)", "1,900 (1,880–1,910)"]
    assert rows["2"][3] == "10.0×–10.0×"
    assert "- feedrate: " in section
    assert "of what 2 CPUs can give at" in section
