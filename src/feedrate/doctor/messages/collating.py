"""Items that do not make a batch, and errors that hide what was wrong."""

from __future__ import annotations

from feedrate.doctor.entry import Entry

_SHAPES = r"got \[(?P<one>[^]]*)\] at entry (?P<first>\d+) and \[(?P<two>[^]]*)\] at entry \d+"
_CHANNELS = (
    r"got \[(?P<one>(?P<c>[134]), (?P<hw>[^]]+))\] at entry (?P<first>\d+) and "
    r"\[(?P<two>(?!(?P=c),)[134], (?P=hw))\]"
)

ENTRIES = (
    Entry(
        name="channels",
        code="crash.collate_size",
        texts=(_CHANNELS,),
        what="images of one batch have different numbers of channels: [{one}] and [{two}]",
        why="gray, palette and transparent images have 1 or 4 channels where others have 3, and "
        "default_collate only stacks equal shapes",
        remedies=("Image.open(path).convert('RGB') in the dataset (or cv2.IMREAD_COLOR)",),
        in_own_code=True,
    ),
    Entry(
        name="sizes",
        code="crash.collate_size",
        texts=(r"stack expects each tensor to be equal size, but " + _SHAPES,),
        what="items of one batch have different sizes: [{one}] and [{two}]",
        why="default_collate stacks items, and only equal shapes can be stacked",
        remedies=(
            "resize or crop in the dataset, so that every item has one shape",
            "pad in a collate_fn (torch.nn.utils.rnn.pad_sequence)",
            "return them as a list: collate_fn=list",
        ),
        in_own_code=True,
    ),
    Entry(
        name="sizes-in-shared-memory",
        code="crash.collate_size",
        texts=(r"Trying to resize storage that is not resizable",),
        what="items of one batch do not fit together: the batch's memory was measured for other "
        "sizes than they have",
        why="in a worker default_collate writes into shared memory whose size it counts first; "
        "items of different sizes or types (or views into an array) then do not fit",
        remedies=(
            "run with num_workers=0: there the message names the two sizes",
            "resize, crop or pad, so that every item has one shape and dtype",
            "return copies instead of views: tensor.clone(), torch.tensor(array)",
        ),
        in_own_code=True,
    ),
    Entry(
        name="lengths",
        code="crash.collate_size",
        texts=(
            r"each element in list of batch should be of equal size",
            r"all input arrays must have the same shape",
            r"inconsistent tensor sizes",
        ),
        what="items of one batch hold lists or arrays of different lengths: {quote}",
        why="default_collate joins the first elements of all lists, then the second, and needs as "
        "many in each",
        remedies=(
            "pad them to one length, in the dataset or in a collate_fn",
            "return them as a list: collate_fn=list",
        ),
        near=r"collate|batch",
        in_own_code=True,
    ),
    Entry(
        name="none-item",
        code="crash.collate_type",
        texts=(
            r"found <class 'NoneType'>",
            r"but got NoneType",
            r"'NoneType' object has no attribute 'numel'",
        ),
        what="an item of the batch, or a part of one, is None",
        why="__getitem__ (or a transform) returned nothing: a branch without return, or a read "
        "that failed and was passed over",
        remedies=(
            "return a value on every way through __getitem__ and the transforms",
            "drop such items in the collate_fn: [i for i in batch if i is not None]",
            "filter them out when the dataset lists its items",
        ),
        in_own_code=True,
    ),
    Entry(
        name="kinds",
        code="crash.collate_type",
        texts=(
            r"batch must contain tensors, numpy arrays, numbers, dicts or lists; found",
            r"expected Tensor as element \d+ in argument 0, but got",
            r"can't convert np\.ndarray of type numpy\.\w+",
            r"'(?!NoneType)\w+' object has no attribute 'numel'",
        ),
        what="items hold something that default_collate cannot put into a batch: {quote}",
        why="it joins tensors, arrays, numbers, strings, and lists and dicts of these; an image, "
        "a path object or a class of one's own is none of them",
        remedies=(
            (
                "convert it in the dataset: transforms.ToTensor() for images, torch.as_tensor() "
                "for arrays, str() for paths"
            ),
            "give the loader a collate_fn that knows it",
        ),
        in_own_code=True,
    ),
    Entry(
        name="layouts",
        code="crash.collate_type",
        texts=(r"Batches of (?P<kind>nested|sparse) tensors are not currently supported",),
        what="items are {kind} tensors, which default_collate cannot batch",
        why="only dense tensors can be stacked into one",
        remedies=("to_dense() in the dataset", "give the loader a collate_fn that knows them"),
        in_own_code=True,
    ),
    Entry(
        name="exception-not-rebuilt",
        code="crash.exception_masked",
        texts=(
            r"__init__\(\) (?:missing \d+ required|takes \d+ positional|got an unexpected keyword)",
            r"function takes (?:exactly|at least|at most) \d+ arguments?",
            r"takes (?:exactly|at least) \w+ arguments? \(\d+ given\)",
        ),
        what="the worker's own error is hidden: torch could not make its exception again in the "
        "main process",
        why="torch rebuilds it from one string, and its class wants other arguments; what is shown "
        "is that failure, not the first one",
        remedies=(
            "run with num_workers=0, where the first error is shown as it is",
            (
                "let the exception's class take one string, or raise RuntimeError(...) from it in "
                "__getitem__"
            ),
        ),
        figures=("versions",),
        near=r"in reraise",
        far=r"Original Traceback",
    ),
)
