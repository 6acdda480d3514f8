"""The settings written into a call, in the sources that people write."""

from __future__ import annotations

import ast
from typing import Any

import pytest

pytest.importorskip("libcst")

from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from builders import make_facts
from feedrate.edit import Edit, edit_call
from feedrate.edit.editing import KEYWORDS
from feedrate.errors import TargetError
from feedrate.settings import LoaderSettings

IMPORT = "from torch.utils.data import DataLoader\n"


def edited(
    text: str, line: int | None = None, *, facts: tuple[Any, ...] = (), **settings: Any
) -> Edit:
    """Edit the only call, or that on ``line``."""
    settings = {"num_workers": 8} | settings
    where = line if line is not None else text[: text.index("DataLoader(")].count("\n") + 1
    return edit_call(text, where, LoaderSettings(**settings), name="train.py", facts=facts)


def written(call: str, **settings: Any) -> str:
    """Return a call of torch's DataLoader after the edit, which has to leave no note."""
    edit = edited(f"{IMPORT}{call}", 2, **settings)
    assert edit.notes == ()
    return edit.source.removeprefix(IMPORT)


def notes(text: str, line: int | None = None, **settings: Any) -> tuple[str, ...]:
    """Return the notes of an edit that changes nothing."""
    edit = edited(text, line, **settings)
    assert edit.source == text
    return edit.notes


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("DataLoader(ds, num_workers=2)", "DataLoader(ds, num_workers=8)"),
        ("DataLoader(ds, num_workers = 2 )", "DataLoader(ds, num_workers = 8 )"),
        ("DataLoader(ds, num_workers=(2))", "DataLoader(ds, num_workers=8)"),
        ("DataLoader(ds, num_workers=0x08)", "DataLoader(ds, num_workers=0x08)"),
        ("DataLoader(ds, num_workers=True)", "DataLoader(ds, num_workers=8)"),
        ("DataLoader(ds, 32, True, None, None, 4)", "DataLoader(ds, 32, True, None, None, 8)"),
        ("DataLoader(ds, 32, True, None, None, 8)", "DataLoader(ds, 32, True, None, None, 8)"),
        ("DataLoader(num_workers=2, dataset=ds)", "DataLoader(num_workers=8, dataset=ds)"),
    ],
)
def test_a_literal_is_replaced(before: str, after: str) -> None:
    assert written(before) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("DataLoader(ds)", "DataLoader(ds, num_workers=8)"),
        ("DataLoader(ds, 32)", "DataLoader(ds, 32, num_workers=8)"),
        ("DataLoader(ds,batch_size=32)", "DataLoader(ds,batch_size=32,num_workers=8)"),
        (
            "DataLoader( ds, batch_size = 32, )",
            "DataLoader( ds, batch_size = 32, num_workers = 8, )",
        ),
        ("DataLoader()", "DataLoader(num_workers=8)"),
        (
            "DataLoader(\n    ds,\n    batch_size=32,\n)",
            "DataLoader(\n    ds,\n    batch_size=32,\n    num_workers=8,\n)",
        ),
        (
            "DataLoader(\n    ds,\n    batch_size=32\n)",
            "DataLoader(\n    ds,\n    batch_size=32,\n    num_workers=8\n)",
        ),
        ("DataLoader(\n    ds\n)", "DataLoader(\n    ds,\n    num_workers=8\n)"),
        (
            "DataLoader(ds,\n           batch_size=32)",
            "DataLoader(ds,\n           batch_size=32,\n           num_workers=8)",
        ),
        (
            "DataLoader(ds, batch_size=32,\n    shuffle=True, drop_last=True)",
            "DataLoader(ds, batch_size=32,\n    shuffle=True, drop_last=True, num_workers=8)",
        ),
        (
            "DataLoader(\n    ds, batch_size=32,  # small\n)",
            "DataLoader(\n    ds, batch_size=32, num_workers=8,  # small\n)",
        ),
        (
            "DataLoader(\n\t\tds,  # all\n\t\tbatch_size=32,  # small\n\t\t# shuffle=True,\n\t)",
            (
                "DataLoader(\n\t\tds,  # all\n\t\tbatch_size=32,  # small\n\t\t# shuffle=True,\n"
                "\t\tnum_workers=8,\n\t)"
            ),
        ),
        (
            "DataLoader(\n    ds,\n    shuffle=True  # each epoch\n)",
            "DataLoader(\n    ds,\n    shuffle=True,  # each epoch\n    num_workers=8\n)",
        ),
        (
            "DataLoader(\n    ds\n    , shuffle=True\n    , drop_last=True\n)",
            "DataLoader(\n    ds\n    , shuffle=True\n    , drop_last=True, num_workers=8\n)",
        ),
        (
            "DataLoader(ds, \\\n    shuffle=True)",
            "DataLoader(ds, \\\n    shuffle=True, \\\n    num_workers=8)",
        ),
    ],
)
def test_a_missing_argument_is_added_in_the_calls_own_style(before: str, after: str) -> None:
    assert written(before) == after


MANY = {"pin_memory": True, "prefetch_factor": 4, "persistent_workers": True}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "DataLoader(\n    data, batch_size=32, shuffle=True, drop_last=True, collate_fn=f\n)",
            (
                "DataLoader(\n    data, batch_size=32, shuffle=True, drop_last=True, "
                "collate_fn=f, num_workers=8,\n"
                "    prefetch_factor=4, pin_memory=True, persistent_workers=True\n)"
            ),
        ),
        (
            (
                "DataLoader(data, batch_size=32, shuffle=True, # random\n"
                "           collate_fn=collate_and_move_to_the_device)"
            ),
            (
                "DataLoader(data, batch_size=32, shuffle=True, # random\n"
                "           collate_fn=collate_and_move_to_the_device, num_workers=8, "
                "prefetch_factor=4,\n"
                "           pin_memory=True, persistent_workers=True)"
            ),
        ),
        (
            "DataLoader(data, batch_size=32,\n           shuffle=True)  # long",
            (
                "DataLoader(data, batch_size=32,\n           shuffle=True, num_workers=8, "
                "prefetch_factor=4, pin_memory=True, persistent_workers=True)  # long"
            ),
        ),
        (
            "DataLoader(\n    data, batch_size=32,\n    shuffle=True,  # each epoch\n)",
            (
                "DataLoader(\n    data, batch_size=32,\n    shuffle=True,  # each epoch\n"
                "    num_workers=8, prefetch_factor=4, pin_memory=True, persistent_workers=True,\n)"
            ),
        ),
        (
            "DataLoader(the_training_set_of_the_first_kind, batch_size=32, shuffle=True)",
            (
                "DataLoader(the_training_set_of_the_first_kind, batch_size=32, shuffle=True, "
                "num_workers=8, prefetch_factor=4, pin_memory=True, persistent_workers=True)"
            ),
        ),
    ],
)
def test_arguments_that_share_lines_are_broken_as_the_call_is(before: str, after: str) -> None:
    assert written(before, **MANY) == after


def test_all_settings_are_written_in_one_order() -> None:
    assert (
        written(
            "DataLoader(ds, pin_memory=False, multiprocessing_context='fork')",
            pin_memory=True,
            prefetch_factor=4,
            persistent_workers=True,
            start_method="spawn",
            batch_size=64,
        )
        == "DataLoader(ds, pin_memory=True, multiprocessing_context='spawn', num_workers=8, "
        "prefetch_factor=4, persistent_workers=True, batch_size=64)"
    )
    assert written("DataLoader(ds, num_workers=8)", start_method="spawn") == (
        'DataLoader(ds, num_workers=8, multiprocessing_context="spawn")'
    )


def test_every_setting_has_its_argument() -> None:
    assert set(LoaderSettings.__struct_fields__) - {"loader", "main_threads"} == set(KEYWORDS)


def test_what_holds_by_default_is_not_written() -> None:
    call = "DataLoader(ds, num_workers=8)"
    assert written(call, pin_memory=False, persistent_workers=False, prefetch_factor=2) == call
    assert written(call, batch_size=1) == call
    assert written("DataLoader(ds)", num_workers=0) == "DataLoader(ds)"
    call = "DataLoader(ds, num_workers=8, prefetch_factor=None)"
    assert written(call, prefetch_factor=2) == call


def test_settings_that_are_none_are_not_touched() -> None:
    call = "DataLoader(ds, 16, num_workers=2, pin_memory=True, prefetch_factor=3)"
    assert written(call) == call.replace("num_workers=2", "num_workers=8")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "DataLoader(ds, num_workers=4, prefetch_factor=2, persistent_workers=True)",
            "DataLoader(ds, num_workers=0)",
        ),
        (
            "DataLoader(prefetch_factor=2, dataset=ds, num_workers=4)",
            "DataLoader(dataset=ds, num_workers=0)",
        ),
        (
            "DataLoader(ds, num_workers=4, timeout=60, multiprocessing_context='spawn',)",
            "DataLoader(ds, num_workers=0,)",
        ),
        (
            "DataLoader(ds, 8, True, None, None, 4, None, False, False, 60, None, 'fork')",
            "DataLoader(ds, 8, True, None, None, 0, None, False, False, 0, None, None)",
        ),
        (
            "DataLoader(ds, num_workers=4, persistent_workers=False, timeout=0)",
            "DataLoader(ds, num_workers=0, persistent_workers=False, timeout=0)",
        ),
        (
            (
                "DataLoader(\n    ds,\n    num_workers=4,  # all\n    # kept busy\n"
                "    prefetch_factor=2,  # tried\n    # as in the paper\n    shuffle=True,\n)"
            ),
            (
                "DataLoader(\n    ds,\n    num_workers=0,  # all\n    # kept busy\n"
                "    # as in the paper\n    shuffle=True,\n)"
            ),
        ),
        (
            "DataLoader(\n    ds,\n    num_workers=4,  # all\n    prefetch_factor=2  # tried\n)",
            "DataLoader(\n    ds,\n    num_workers=0  # all\n)",
        ),
        (
            "DataLoader(ds, num_workers=4,\n           prefetch_factor=2)",
            "DataLoader(ds, num_workers=0)",
        ),
        (
            "DataLoader(ds, num_workers=4,  # all\n           prefetch_factor=2)",
            "DataLoader(ds, num_workers=0  # all\n           )",
        ),
        (
            "DataLoader(ds, num_workers=4, prefetch_factor=2,  # both\n           shuffle=True)",
            "DataLoader(ds, num_workers=0,  # both\n           shuffle=True)",
        ),
        (
            "DataLoader(\n    ds,\n    prefetch_factor=2, num_workers=4,\n)",
            "DataLoader(\n    ds,\n    num_workers=0,\n)",
        ),
    ],
)
def test_without_workers_what_needs_them_is_taken_out(before: str, after: str) -> None:
    assert written(before, num_workers=0, persistent_workers=False) == after


def test_what_may_be_unpacked_is_named_where_there_are_to_be_no_workers() -> None:
    edit = edited(f"{IMPORT}DataLoader(ds, num_workers=4, **more)", num_workers=0)
    assert edit.source == f"{IMPORT}DataLoader(ds, num_workers=0, **more)"
    assert edit.notes == ("**more must not hold prefetch_factor or persistent_workers now.",)


@pytest.mark.parametrize(
    "source",
    [
        "import torch\nx = torch.utils.data.DataLoader(ds, num_workers=2)\n",
        "import torch.utils.data\nx = torch.utils.data.DataLoader(ds, num_workers=2)\n",
        "import torch.utils.data as data\nx = data.DataLoader(ds, num_workers=2)\n",
        "from torch.utils import data\nx = data.DataLoader(ds, num_workers=2)\n",
        "from torch.utils.data import DataLoader as DL\nx = DL(ds, num_workers=2)\n",
        "from torch.utils.data import *\nx = DataLoader(ds, num_workers=2)\n",
        "from torch.utils.data import DataLoader\nL = DataLoader\nx = L(ds, num_workers=2)\n",
        "from feedrate import DataLoader\nx = DataLoader(ds, num_workers='auto')\n",
        "from torch_geometric.loader import DataLoader\nx = DataLoader(ds, num_workers=2)\n",
        (
            "try:\n    from fast import DataLoader\nexcept ImportError:\n"
            "    from torch.utils.data import DataLoader\nx = DataLoader(ds, num_workers=2)\n"
        ),
        (
            "import lightning as L\nfrom torch.utils.data import DataLoader\n"
            "class M(L.LightningModule):\n"
            "    def train_dataloader(self):\n        return DataLoader(self.ds, num_workers=2)\n"
        ),
        (
            "def make():\n    from torch.utils.data import DataLoader\n"
            "    return DataLoader(ds, num_workers=2)\n"
        ),
        (
            "from torch.utils.data import DataLoader\n"
            "loaders = {k: DataLoader(v, num_workers=2) for k, v in sets.items()}\n"
        ),
        "from timm.data import create_loader\nx = create_loader(ds, 224, num_workers=2)\n",
        (
            "import torch\ndef f(x: 'not a (type'): ...\n"
            "x = torch.utils.data.DataLoader(num_workers=2)\n"
        ),
    ],
)
def test_a_call_is_found_under_any_name(source: str) -> None:
    number = "'auto'" if "auto" in source else "2"
    line = source[: source.index("num_workers")].count("\n") + 1
    edit = edited(source, line)
    assert edit.source == source.replace(f"num_workers={number}", "num_workers=8")
    assert (edit.line, edit.moved, edit.notes) == (line, False, ())


def test_the_line_may_be_any_of_the_calls() -> None:
    source = (
        f"{IMPORT}loader = wrap(\n    DataLoader(\n        ds,\n        shuffle=True,\n    ),\n)\n"
    )
    for line in range(3, 7):
        edit = edited(source, line)
        assert edit.source == source.replace("True,\n", "True,\n        num_workers=8,\n")
        assert (edit.line, edit.moved) == (3, False)


def test_one_loader_within_the_call_of_another() -> None:
    source = (
        f"{IMPORT}x = DataLoader(\n    Cached(\n        DataLoader(ds, 1),\n    ),\n    32,\n)\n"
    )
    assert "DataLoader(ds, 1, num_workers=8)" in edited(source, 4).source
    assert "    32,\n    num_workers=8,\n)" in edited(source, 6).source


CLASS = f"""{IMPORT}
class MyLoader(DataLoader):
    def __init__(self, ds, workers=2, num_workers=0, **kwargs):
        super().__init__(ds, num_workers=num_workers, pin_memory=True, **kwargs)


x = MyLoader(ds, 4)
"""


def test_a_subclass_is_called_as_its_initializer_says() -> None:
    edit = edited(CLASS, 8, prefetch_factor=4, pin_memory=False)
    assert edit.source == CLASS.replace("(ds, 4)", "(ds, 4, num_workers=8, prefetch_factor=4)")
    assert edit.notes == ("pin_memory is given on line 5: let it be False there.",)


def test_a_subclass_that_takes_no_such_argument() -> None:
    source = CLASS.replace(", **kwargs)", ")").replace("num_workers=0", "shuffle=True")
    source = source.replace("num_workers=num_workers", "num_workers=workers")
    assert notes(source, 8) == (
        "MyLoader is not known to take num_workers: let it be 8 where that makes its loader.",
    )
    assert edited(source, 5).notes == (
        "num_workers comes from workers, a parameter of __init__() (line 4): pass 8 for it.",
    )


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("class MyLoader(DataLoader):\n    pass\nx = MyLoader(ds, 2)\n", 4),
        ("class A(DataLoader[int]): ...\nclass MyLoader(A): ...\nx = MyLoader(ds, 2)\n", 4),
        (
            "class A(DataLoader):\n    def __init__(self):\n        super().__init__(self.ds, 2)\n",
            4,
        ),
        (
            (
                "class A(DataLoader):\n    def __init__(self):\n"
                "        DataLoader.__init__(self, self.ds, 2)\n"
            ),
            4,
        ),
    ],
)
def test_a_class_on_the_loader(body: str, line: int) -> None:
    source = IMPORT + body
    edit = edited(source, line, batch_size=64)
    assert edit.source == source.replace("ds, 2)", "ds, 64, num_workers=8)")
    assert edit.notes == ()


PARTIAL = f"""from functools import partial
{IMPORT}make = partial(DataLoader, num_workers=2, prefetch_factor=4)
x = make(ds, 32)
"""


def test_a_partial_is_edited_where_it_is_called() -> None:
    edit = edited(PARTIAL, 4, batch_size=64)
    assert edit.source == PARTIAL.replace("(ds, 32)", "(ds, 64, num_workers=8)")
    edit = edited(PARTIAL, 4, num_workers=2, prefetch_factor=4)
    assert edit.source == PARTIAL
    edit = edited(PARTIAL, 4, num_workers=0)
    assert edit.source == PARTIAL.replace("32)", "32, num_workers=0, prefetch_factor=None)")


def test_a_partial_is_edited_where_it_is_made_if_that_is_the_line() -> None:
    assert edited(PARTIAL, 3).source == PARTIAL.replace("num_workers=2", "num_workers=8")
    source = PARTIAL.replace("num_workers=2", "ds, 32, True, None, None, 2")
    assert edited(source, 3).source == source.replace("None, 2", "None, 8")


def test_what_a_partial_gives_by_position_is_not_given_again() -> None:
    source = PARTIAL.replace("num_workers=2", "ds, 32, True, None, None, 2")
    source = source.replace("(ds, 32)", "()")
    assert notes(source, 4) == ("num_workers is given on line 3: let it be 8 there.",)


@pytest.mark.parametrize(
    ("before", "call", "note"),
    [
        (
            "n = 4\n",
            "DataLoader(ds, num_workers=n)",
            "num_workers comes from n, which line 2 sets: set it to 8 there.",
        ),
        (
            "n: int = 4\n",
            "DataLoader(ds, 1, True, None, None, n)",
            "num_workers comes from n, which line 2 sets: set it to 8 there.",
        ),
        (
            "if fast: n = 4\nelse: n = 2\n",
            "DataLoader(ds, num_workers=n)",
            "num_workers comes from n, which lines 2 and 3 set: let it be 8.",
        ),
        ("", "DataLoader(ds, num_workers=n)", "num_workers comes from n: let it be 8."),
        (
            "from config import n\n",
            "DataLoader(ds, num_workers=n)",
            "num_workers comes from n, which line 2 imports: set it to 8 where it is made.",
        ),
        (
            "make = ",
            "lambda n: DataLoader(ds, num_workers=n)",
            "num_workers comes from n, a parameter of a lambda (line 2): pass 8 for it.",
        ),
        (
            "def make(ds, n=4):\n    return ",
            "DataLoader(ds, num_workers=n)",
            "num_workers comes from n, a parameter of make() (line 2): pass 8 for it.",
        ),
        (
            "parser.add_argument('-j', '--num-workers', default=4)\n",
            "DataLoader(ds, num_workers=args.num_workers)",
            (
                "num_workers comes from args.num_workers: start with --num-workers 8, or make 8 "
                "its default on line 2."
            ),
        ),
        (
            "parser.add_argument('--jobs', dest='n')\n",
            "DataLoader(ds, num_workers=self.args.n)",
            (
                "num_workers comes from self.args.n: start with --jobs 8, or make 8 its default on "
                "line 2."
            ),
        ),
        (
            "",
            "DataLoader(ds, num_workers=cfg.data.workers)",
            "num_workers comes from cfg.data.workers: give it 8 there.",
        ),
        (
            "",
            "DataLoader(ds, num_workers=cfg['workers'])",
            "num_workers comes from cfg['workers']: give it 8 there.",
        ),
        (
            "",
            "DataLoader(ds, num_workers=os.cpu_count() // 2)",
            "num_workers is computed (os.cpu_count() // 2): let it be 8.",
        ),
        (
            "",
            "DataLoader(ds, **kwargs)",
            "num_workers may come from **kwargs: put num_workers=8 into it.",
        ),
        (
            "",
            "DataLoader(ds, shuffle=True, **{'drop_last': True})",
            "num_workers may come from **{'drop_last': True}: put num_workers=8 into it.",
        ),
        (
            "kwargs = {'num_workers': 2}\n",
            "DataLoader(ds, **kwargs)",
            "num_workers may come from **kwargs (line 2): put num_workers=8 into it.",
        ),
        ("", "DataLoader(*args)", "num_workers may come from *args: put 8 into it."),
    ],
)
def test_what_comes_from_elsewhere_is_left_alone_and_said(
    before: str, call: str, note: str
) -> None:
    source = f"{IMPORT}{before}{call}\n"
    assert notes(source) == (note,)


def test_a_switch_of_argparse_takes_no_value() -> None:
    source = (
        f"{IMPORT}p.add_argument('--pin', action='store_true')\n"
        "DataLoader(ds, num_workers=8, pin_memory=args.pin)\n"
    )
    assert notes(source, pin_memory=True) == (
        "pin_memory comes from args.pin: it is the option --pin of line 2: let it be True.",
    )


def test_a_variable_that_has_the_value_already_needs_no_note() -> None:
    assert notes(f"{IMPORT}N = 8\nDataLoader(ds, num_workers=N)\n") == ()


def test_a_batch_sampler_decides_on_batches() -> None:
    edit = edited(f"{IMPORT}DataLoader(ds, batch_sampler=s)", batch_size=64)
    assert edit.source == f"{IMPORT}DataLoader(ds, batch_sampler=s, num_workers=8)"
    assert edit.notes == ("batch_size comes from the batch_sampler: let it give batches of 64.",)


def test_nothing_is_written_that_torch_may_refuse() -> None:
    source = f"{IMPORT}DataLoader(ds, num_workers=n)\n"
    assert notes(source, persistent_workers=True) == (
        "num_workers comes from n: let it be 8.",
        (
            "persistent_workers=True is not written, for torch refuses it without workers: add it "
            "when num_workers is set."
        ),
    )
    edit = edited(source, persistent_workers=True, facts=(make_facts(2),))
    assert edit.source == f"{IMPORT}DataLoader(ds, num_workers=n, persistent_workers=True)\n"
    source = f"{IMPORT}DataLoader(ds, num_workers=n, prefetch_factor=4)\n"
    assert notes(source, num_workers=0) == (
        "num_workers comes from n: let it be 0.",
        "prefetch_factor=4 needs workers: take it out when num_workers is 0.",
    )


def test_what_was_measured_on_feedrates_loader_is_said() -> None:
    edit = edited(f"{IMPORT}DataLoader(ds)\n", loader="feedrate")
    assert edit.notes == (
        (
            "These settings were measured with feedrate's loader: import DataLoader from feedrate "
            "to have it."
        ),
    )
    source = "from feedrate import DataLoader\nDataLoader(ds)\n"
    assert edited(source, loader="feedrate").notes == ()


LOADERS = f"""{IMPORT}
train = DataLoader(a, batch_size=64, num_workers=2)
val = DataLoader(b, batch_size=256, num_workers=2)
"""
TRAIN = (make_facts(2, batch_size=64),)


def test_the_only_call_is_found_where_it_is_now() -> None:
    source = IMPORT + "x = 1\n" * 60 + "DataLoader(ds)\n"
    edit = edited(source, 3)
    assert edit.source.endswith("DataLoader(ds, num_workers=8)\n")
    assert (edit.line, edit.moved, edit.only) == (62, True, True)


def test_the_only_call_near_is_found_where_it_is_now() -> None:
    far = "x = 1\n" * 60
    source = f"{IMPORT}{far}DataLoader(a)\n{far}DataLoader(b)\n"
    assert edited(source, 50).source == source.replace("(a)", "(a, num_workers=8)")


def test_calls_that_could_all_be_meant_are_refused() -> None:
    with pytest.raises(TargetError) as refused:
        edited(LOADERS, 1)
    assert str(refused.value) == (
        "line 1 of train.py makes no DataLoader any more, and lines 3 and 4 do: measure again"
    )


def test_what_the_loader_had_tells_which_call_is_meant() -> None:
    after = LOADERS.replace("64, num_workers=2", "64, num_workers=8")
    for line in (1, 3, 4, 5):
        assert edited(LOADERS, line, facts=TRAIN).source == after
        assert edited(after, line, facts=TRAIN).source == after


def test_a_call_that_was_changed_by_hand_is_found_by_its_line() -> None:
    facts = (make_facts(2, batch_size=128),)
    assert edited(LOADERS, 3, facts=facts).source == LOADERS.replace(
        "64, num_workers=2", "64, num_workers=8"
    )


def test_a_loader_that_a_library_made_anew_may_have_no_batch_size() -> None:
    facts = (make_facts(2, batch_size=None),)
    source = LOADERS.replace("256, num_workers=2", "256, num_workers=4")
    assert edited(source, 3, facts=facts).source == source.replace("workers=2", "workers=8")


def test_two_calls_on_one_line() -> None:
    source = f"{IMPORT}a, b = DataLoader(x, 64), DataLoader(y, 256)\n"
    with pytest.raises(TargetError) as refused:
        edited(source, 2)
    assert str(refused.value) == (
        "line 2 of train.py makes 2 loaders, and only one was measured: put each on its own line "
        "and measure again"
    )
    assert edited(source, 2, facts=TRAIN).source == source.replace("64)", "64, num_workers=8)")


@pytest.mark.parametrize("source", ["", "x = 1\n", "def DataLoader(n): ...\nDataLoader(2)\n"])
def test_a_file_without_a_call(source: str) -> None:
    with pytest.raises(TargetError) as refused:
        edited(source, 2)
    assert str(refused.value) == (
        "train.py has no call that makes the measured DataLoader, on line 2 or elsewhere: name "
        "the file that has, or measure again"
    )


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("x = 1\nDataLoader(ds,\n", "line 2: '(' was never closed"),
        ("x = = 1\n", "line 1: invalid syntax"),
        ("x = '\\d'\nx = = 1\n", "line 2: invalid syntax"),
    ],
)
def test_a_file_that_is_no_python(source: str, reason: str) -> None:
    with pytest.raises(TargetError) as refused:
        edited(source, 1)
    assert str(refused.value) == f"train.py cannot be parsed ({reason}): mend it first"


@pytest.mark.parametrize(
    ("start", "before", "after", "end"),
    [
        (IMPORT.replace("\n", "\r\n"), "\r\n\tds,", "\r\n\tds,\r\n\tnum_workers=8,", "\r\n)\r\n"),
        (IMPORT, "\r\n\tds,", "\r\n\tds,\n\tnum_workers=8,", "\n)\r\ny = 1\n"),
        (f"{IMPORT}\x0c\nx = ", "ds", "ds, num_workers=8", ")  \n\n\n"),
        (f"# é\n{IMPORT}if 1:\n\tx = ", "'ä'", "'ä', num_workers=8", ")\n\n   # end"),
        (f"{IMPORT}if x: \\\n  y = ", "ds", "ds, num_workers=8", ");  z = (1,\n2)"),
        (
            f"\\\n{IMPORT}if x:\n    pass\n\n  # odd\n\n",
            "\n    ds,",
            "\n    ds,\n    num_workers=8,",
            "\n)\n\n",
        ),
        (f"\\\n{IMPORT}DataLoader(a)\n\n\n", "ds", "ds, num_workers=8", ")\n\nDataLoader(ds)"),
        (f"\\\n{IMPORT}", "ds, num_workers=8", "ds, num_workers=8", ")"),
    ],
)
def test_the_rest_of_the_file_stays_as_it_is(start: str, before: str, after: str, end: str) -> None:
    line = start.count("\n") + 1
    edit = edited(f"{start}DataLoader({before}{end}", line)
    assert edit.source == f"{start}DataLoader({after}{end}"
    assert (edit.line, edit.moved) == (line, False)


# Calls put together of parts that people write, and what the settings may be.
SEPARATORS = st.sampled_from([", ", ",", ",\n    ", ",  # why\n    ", ",\n    # why\n    ", " , "])
PARTS = {
    "batch_size": ["batch_size=32", "batch_size = n"],
    "shuffle": ["shuffle=True"],
    "num_workers": ["num_workers=4", "num_workers=0", "num_workers=n", "num_workers=(2)"],
    "pin_memory": ["pin_memory=True", "pin_memory=n"],
    "prefetch_factor": ["prefetch_factor=2", "prefetch_factor=None"],
    "persistent_workers": ["persistent_workers=True", "persistent_workers=n"],
    "timeout": ["timeout=5"],
    "**": ["**kwargs"],
}
ENDS = st.sampled_from(["", ",", "\n", ",\n", "  # end\n", ",  # end\n# more\n"])
STARTS = st.sampled_from(["", "\n    ", "  # start\n    ", " "])


@st.composite
def calls(draw: Any) -> str:
    names = draw(st.permutations(sorted(PARTS)))[: draw(st.integers(0, len(PARTS)))]
    parts = ["ds", *(draw(st.sampled_from(PARTS[name])) for name in names)]
    text = parts[0] + "".join(draw(SEPARATORS) + part for part in parts[1:])
    return f"DataLoader({draw(STARTS)}{text}{draw(ENDS)})"


@st.composite
def some_settings(draw: Any) -> dict[str, Any]:
    workers = draw(st.sampled_from([0, 1, 8]))
    some = {"num_workers": workers, "pin_memory": draw(st.sampled_from([None, False, True]))}
    if workers:
        some["prefetch_factor"] = draw(st.sampled_from([None, 2, 4]))
        some["persistent_workers"] = draw(st.sampled_from([None, False, True]))
        some["start_method"] = draw(st.sampled_from([None, "spawn"]))
    return some


@examples(max_examples=40)
@given(calls(), some_settings())
def test_only_the_settings_change_and_only_once(call: str, settings: dict[str, Any]) -> None:
    source = f"{IMPORT}n = read()\nfor x in [{call}]:  # each\n    use(x)\n"
    edit = edited(source, 3, **settings)
    assert edited(edit.source, 3, **settings) == edit
    names = {KEYWORDS[name] for name in settings}
    if settings["num_workers"] == 0:
        names |= {"timeout", "prefetch_factor", "persistent_workers"}
    before, after = ast.parse(source), ast.parse(edit.source)
    for tree in (before, after):
        found = find(tree)
        found.keywords = [item for item in found.keywords if item.arg not in names]
    assert ast.dump(before) == ast.dump(after)


@examples(max_examples=40)
@given(calls(), some_settings())
def test_the_edited_call_has_each_setting_or_a_note(call: str, settings: dict[str, Any]) -> None:
    edit = edited(f"{IMPORT}{call}\n", 2, **settings)
    given_now = {item.arg: item.value for item in find(ast.parse(edit.source)).keywords}
    defaults = {"pin_memory": False, "num_workers": 0, "persistent_workers": False}
    for field, wanted in settings.items():
        name = KEYWORDS[field]
        if wanted is None or any(note.startswith(name) for note in edit.notes):
            continue
        present = given_now.get(name)
        value = defaults.get(name) if present is None else ast.literal_eval(present)
        assert value == wanted or (name, value, wanted) == ("prefetch_factor", None, 2)


def find(tree: ast.Module) -> ast.Call:
    (found,) = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "DataLoader"
    )
    return found
