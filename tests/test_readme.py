"""The README's remedies run as they stand there, and print what they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
PRINTED = re.compile(r"^print\(.*\)\s+# (.*)$", re.MULTILINE)


def remedies() -> list[str]:
    section = README.read_text(encoding="utf-8").partition("\n## Remedies\n")[2]
    return BLOCK.findall(section.partition("\n## ")[0])


@pytest.mark.torch
def test_the_remedies_do_what_the_readme_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("PIL")
    pytest.importorskip("torchvision")
    from feedrate.experiments.photos import make_photos

    make_photos(tmp_path / "feedrate-demo" / "photos")
    monkeypatch.chdir(tmp_path)
    blocks = remedies()
    assert len(blocks) == 5
    program = "\n".join(blocks)
    exec(compile(program, "README.md", "exec"), {"__name__": "readme"})
    assert capsys.readouterr().out.splitlines() == PRINTED.findall(program)
