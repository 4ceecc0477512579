"""Files that make one source, and how many of their rows a block has."""

from pathlib import Path

from sublinear._readers.files import check_readable

SHARDS = ("npz", "parquet")  # the endings of the files that a folder may hold
BLOCK_ROWS = 8192


def files_of(path, endings):
    """Return the files that a name, a folder's name or a list of names stands for."""
    if isinstance(path, (list, tuple)):
        paths = [Path(one) for one in path]
    elif Path(path).is_dir():
        paths = sorted(one for one in Path(path).iterdir() if one.suffix.lower()[1:] in endings)
    else:
        paths = [Path(path)]
    if not paths:
        raise ValueError(f"{path}: no files to read (looked for {', '.join(endings)})")
    for one in paths:
        check_readable(one)
    return paths
