"""Files before they are read: what their names announce, whether they are sound, how they open."""

import bz2
import codecs
import contextlib
import functools
import gzip
import inspect
import lzma
import zlib

_OPENERS = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_DECOMPRESSION_ERRORS = (EOFError, OSError, zlib.error, lzma.LZMAError)


def format_of(path):
    """Return the format that a file's name announces; LIBSVM's sets have no ending of their own."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in _OPENERS:
        suffixes.pop()
    ending = suffixes[-1][1:] if suffixes else ""
    return ending if ending in ("csv", "npz", "npy", "parquet") else "svmlight"


def check_readable(path):
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file")
    if not path.is_file():
        raise OSError(f"{path}: not a regular file")
    try:
        with open(path, "rb") as stream:
            empty = not stream.read(1)
    except OSError as error:
        raise OSError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    if empty:
        raise ValueError(f"{path}: the file is empty")


def check_options(path, format, reader, options):
    """Raise ValueError if what reads a format does not know one of the options."""
    known = inspect.signature(reader).parameters.keys()
    unknown = sorted(options.keys() - known)
    if unknown:
        do = "does" if len(unknown) == 1 else "do"
        hint = "; such files hold their own labels" if "labels" in unknown else ""
        if "label_column" in known and any(name.startswith("label") for name in unknown):
            hint += "; label_column (--label-column) says in which column labels are"
        raise ValueError(
            f"{path}: {', '.join(unknown)} {do} not apply to data in {format} format{hint}"
        )


@contextlib.contextmanager
def undamaged(path):
    """Turn the errors of a damaged compressed file into one that names the file."""
    try:
        yield
    except _DECOMPRESSION_ERRORS as error:
        if getattr(error, "errno", None) is not None:  # of the system: the file is not to be read
            raise
        raise ValueError(f"{path}: damaged or not what its name says ({error})") from error


def chunks_of_lines(stream, n_bytes):
    """Yield the rest of a stream of bytes in chunks of whole lines, of about so many bytes."""
    while chunk := stream.read(n_bytes):
        yield chunk + stream.readline()


def decompressed(reader):
    @functools.wraps(reader)
    def guarded(path, **options):
        with undamaged(path):
            return reader(path, **options)

    return guarded


def open_file(path, mode="rb", **options):
    return _OPENERS.get(path.suffix.lower(), open)(path, mode, **options)


@contextlib.contextmanager
def open_behind_mark(path):
    """Open a file of text to be read as bytes, behind its byte order mark if it has one."""
    with open_file(path) as stream:
        if stream.read(len(codecs.BOM_UTF8)) != codecs.BOM_UTF8:
            stream.seek(0)
        yield stream
