"""Files of the dataset that are broken, cut short, or not there."""

from __future__ import annotations

from feedrate.doctor.entry import Entry

_CHECK = "read every file once before training, and remove or replace those that fail"
_AGAIN = "download or make the file again, and compare its size"
_SKIP = "catch the error in __getitem__ with the file's name in the message, and take another item"
_IN_ITEM = r"DataLoader worker|__getitem__|__iter__|_utils[/\\]fetch\.py|dataset"

ENTRIES = (
    Entry(
        name="image-truncated",
        code="crash.data_corrupt",
        texts=(
            r"image file is truncated",
            r"broken data stream when reading image file",
            r"unrecognized data stream contents when reading image file",
            r"broken PNG file",
            r"Truncated File Read",
            r"truncated PNG",
        ),
        what="an image file is cut short or broken: {quote}",
        why="a download or a copy ended too early; the decoder met the end before the image's",
        remedies=(
            f"{_AGAIN}",
            _CHECK,
            "PIL.ImageFile.LOAD_TRUNCATED_IMAGES = True takes such images, gray where they end",
        ),
        in_own_code=True,
    ),
    Entry(
        name="image-unknown",
        code="crash.data_corrupt",
        texts=(
            r"cannot identify image file",
            r"UnidentifiedImageError",
            r"Unsupported image file\. Only jpeg",
            r"[Ii]nput is empty|Not a JPEG file",
        ),
        what="a file is no image that its reader knows: {quote}",
        why="it is empty, an error page that was saved under the image's name, or of another kind",
        remedies=(_AGAIN, _CHECK, "leave out files that are no images when the dataset lists them"),
        in_own_code=True,
    ),
    Entry(
        name="image-not-read",
        code="crash.data_corrupt",
        texts=(r"\(-215:Assertion failed\) !_?src\.empty\(\)", r"!ssize\.empty\(\)"),
        what="OpenCV was given no image: cv2.imread returned None",
        why="cv2.imread says nothing when a file is missing or broken; the next call fails",
        remedies=(
            "check what imread returned, and raise an error with the path",
            _CHECK,
        ),
        in_own_code=True,
    ),
    Entry(
        name="image-decoder-remark",
        code="crash.data_corrupt",
        texts=(r"Corrupt JPEG data|Premature end of JPEG file",),
        what="a JPEG file is damaged, and was decoded as far as it goes: {quote}",
        why="the decoder fills what is missing with gray, and goes on",
        remedies=(_CHECK,),
        severity="warning",
        role="note",
    ),
    Entry(
        name="archive-truncated",
        code="crash.data_corrupt",
        texts=(
            r"tarfile\.(?:ReadError|EmptyHeaderError|TruncatedHeaderError|InvalidHeaderError)",
            r"unexpected end of data",
            r"Compressed file ended before the end-of-stream marker",
            r"Error -[35] while decompressing data",
            r"Not a gzipped file",
            r"CRC check failed 0x",
            r"File is not a zip file|BadZipFile",
            r"failed finding central directory|failed reading zip archive",
            r"zstd.*(?:Unknown frame|incomplete|Data corruption)|ZstdError",
        ),
        what="an archive or a compressed file is cut short or broken: {quote}",
        why="a download ended too early, or the file is of another kind than its name says",
        remedies=(
            _AGAIN,
            "tar -tf, gzip -t or unzip -t finds the broken ones before training",
            "for shards over a network: retry, and skip a broken one with its name in the log",
        ),
        far=r"Bad (?:magic number|CRC-32) for file",
        in_own_code=True,
    ),
    Entry(
        name="arrays-broken",
        code="crash.data_corrupt",
        texts=(
            r"Failed to interpret file .* as a pickle",
            r"cannot reshape array of size \d+ into shape",
            r"invalid load key",
            r"pickle data was truncated",
            r"No data left in file",
            r"EOFError: Ran out of input",
            r"Expecting value: line 1 column 1 \(char 0\)",
            r"(?:Parquet magic bytes not found|Not an Arrow file|Invalid flatbuffers message)",
            r"safetensors_rust\.SafetensorError|HeaderTooLarge|MetadataIncompleteBuffer",
        ),
        what="a data file does not hold what its reader expects: {quote}",
        why="it is empty, cut short, a text in place of the data (Git LFS writes such pointers), "
        "or of another kind",
        remedies=(_AGAIN, "git lfs pull where the file is a pointer", _CHECK),
        near=_IN_ITEM,
        far=r"spawn_main|multiprocessing[/\\]spawn\.py|reduction\.pickle\.load",
        in_own_code=True,
    ),
    Entry(
        name="video-broken",
        code="crash.data_corrupt",
        texts=(
            r"moov atom not found",
            r"Invalid data found when processing input",
            r"DECORDError",
            r"error while decoding MB|Invalid NAL unit",
            r"LibsndfileError|Format not recognised",
        ),
        what="a video or sound file is broken or incomplete: {quote}",
        why="a download or recording ended before the file was closed",
        remedies=(_AGAIN, _CHECK, _SKIP),
        in_own_code=True,
    ),
    Entry(
        name="file-missing",
        code="crash.data_missing",
        texts=(r"(?:FileNotFoundError: )?\[Errno 2\] No such file or directory: (?P<path>.+)",),
        what="a file that the dataset lists is not there: {path}",
        why="a relative path is read from another folder, the list and the files do not fit, or "
        "the storage is not mounted here",
        remedies=(
            "use absolute paths, or build them from the dataset's own root",
            "compare the list with the folder before training",
        ),
        near=_IN_ITEM,
        far=r"rebuild_storage|resource_sharer|SemLock|psm_|/torch_\w+'|shared_memory\.py",
        in_own_code=True,
    ),
    Entry(
        name="storage-stale",
        code="crash.storage",
        texts=(
            r"\[Errno 116\]|Stale file handle",
            r"\[Errno 5\] Input/output error",
            r"\[Errno 107\]|Transport endpoint is not connected",
            r"\[Errno 121\] Remote I/O error",
        ),
        what="the storage under the dataset failed: {quote}",
        why="a network file system was remounted, lost its server, or a disk has errors; the "
        "files may be sound",
        remedies=(
            "look at the mount and its server (mount, dmesg), and try the same file by hand",
            "retry such reads in __getitem__ after a pause",
            "copy the data to a local disk before training",
        ),
        in_own_code=True,
    ),
)
