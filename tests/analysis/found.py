"""The findings of a suite by their code, for tests about one verdict each."""

from __future__ import annotations

from feedrate.analysis.verdicts import judge
from feedrate.records import Evidence, Finding, Suite


def one(suite: Suite, code: str) -> Finding:
    """Return the finding with the code, of which there must be exactly one."""
    (made,) = (finding for finding in judge(suite) if finding.code == code)
    return made


def none(suite: Suite, code: str) -> bool:
    """Say whether there is no finding with the code."""
    return all(finding.code != code for finding in judge(suite))


def evidence(finding: Finding, name: str) -> Evidence:
    """Return the finding's evidence with the name."""
    (made,) = (item for item in finding.evidence if item.name == name)
    return made
