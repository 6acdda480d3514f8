"""The checks of the machine, in the order in which they are told."""

from __future__ import annotations

from feedrate.doctor import (
    check_cpus,
    check_files,
    check_gpus,
    check_memory,
    check_software,
    first_guess,
)
from feedrate.doctor.checks import Check

CHECKS: tuple[Check, ...] = (
    *check_memory.CHECKS,
    *check_files.CHECKS,
    *check_software.CHECKS,
    *check_gpus.CHECKS,
    *check_cpus.CHECKS,
    *first_guess.CHECKS,
)
