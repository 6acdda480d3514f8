from __future__ import annotations

from found import evidence, none, one

from builders import make_benchmark, make_failed_run, make_run, make_suite


def test_failed_settings_and_the_first_cause_in_time() -> None:
    suite = make_suite(
        [
            make_benchmark(1, runs=[make_run(), make_failed_run("Too late.")]),
            make_benchmark(2, runs=[make_failed_run("A worker was killed")]),
            make_benchmark(4, [100.0]),
            make_benchmark(8, skipped="no room"),
        ]
    )
    made = one(suite, "sweep.failed")
    assert made.severity == "warning"
    assert made.title == (
        "2 of 3 settings failed, wholly or in part: 1 worker (1 of 2 runs) and 2 workers. "
        "The first cause: A worker was killed."
    )
    assert evidence(made, "failed runs").value == 2
    assert made.remedy == "The whole traceback: feedrate report FILE -v, or table(verbose=True)."


def test_wholly_failed_settings() -> None:
    suite = make_suite([make_benchmark(n, runs=[make_failed_run("It hung.")]) for n in range(1, 7)])
    assert one(suite, "sweep.failed").title == (
        "6 of 6 settings failed: 6 of 6 settings. The first cause: It hung."
    )


def test_skipped_settings_and_the_first_reason() -> None:
    suite = make_suite(
        [
            make_benchmark(1, [100.0]),
            make_benchmark(8, skipped="needs about 3 GiB, and 1 GiB are free: use fewer workers"),
            make_benchmark(16, skipped="needs about 6 GiB"),
        ]
    )
    made = one(suite, "sweep.skipped")
    assert made.severity == "warning"
    assert made.title == (
        "2 of 3 settings were not tried: 8 workers and 16 workers. 8 workers: Needs about 3 GiB, "
        "and 1 GiB are free: use fewer workers."
    )


def test_one_skipped_setting_needs_its_name_once() -> None:
    suite = make_suite([make_benchmark(8, skipped="needs about 3 GiB.")])
    assert one(suite, "sweep.skipped").title == (
        "The only setting was not tried: 8 workers. Needs about 3 GiB."
    )


def test_nothing_failed_nor_was_skipped() -> None:
    assert none(make_suite(), "sweep.failed")
    assert none(make_suite(), "sweep.skipped")


def test_the_only_setting_failed() -> None:
    made = one(make_suite([make_benchmark(0, runs=[make_failed_run("It hung.")])]), "sweep.failed")
    assert made.title == "The only setting failed: 0 workers. The first cause: It hung."
