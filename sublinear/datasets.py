"""Generated data, and loaders for the usual file formats."""

import numpy as np
from scipy import sparse

from sublinear import _sequences
from sublinear._documentation import with_parameters
from sublinear._known_optima import (
    KnownEnclosingBall,
    KnownMatrixGame,
    KnownSimplexQP,
    LowerBoundInstance,
    PlantedMargin,
    make_enclosing_ball,
    make_lower_bound_instance,
    make_matrix_game,
    make_planted_margin,
    make_simplex_qp,
)
from sublinear._readers import read
from sublinear._sequences import HiddenMarkovModel
from sublinear._validation import check_number, check_sizes, generator

__all__ = [
    "HiddenMarkovModel",
    "KnownEnclosingBall",
    "KnownMatrixGame",
    "KnownSimplexQP",
    "LowerBoundInstance",
    "PlantedMargin",
    "load",
    "make_enclosing_ball",
    "make_lower_bound_instance",
    "make_matrix_game",
    "make_planted_margin",
    "make_simplex_qp",
    "make_sparse_classification",
    "make_tagged_sequences",
]

MOST_DRAWS = 100  # for each stored entry of a row; the others are repetitions


def load(
    path,
    *,
    format=None,
    labels=None,
    label_column="last",
    weight_column=None,
    header=None,
    text_labels=None,
    index_base=None,
    n_features=None,
):
    """Load rows and labels from one file.

    ====================== ====================================================================
    name ends with         read as
    ====================== ====================================================================
    ``.csv``               comma-separated numbers, with or without a header line
    ``.npz``               a CSR (or CSC) matrix as `scipy.sparse.save_npz` writes it, or the
                           arrays ``data``, ``indices``, ``indptr``, ``shape``, or a dense
                           array ``X``; labels from the array ``y`` if there is one
    ``.npy``               a dense 2-d array, memory-mapped; labels from ``labels``
    anything else          LIBSVM / svmlight text: ``label index:value index:value ...``
    ====================== ====================================================================

    Text may be compressed: ``.gz``, ``.bz2`` or ``.xz`` after the name. Pickled objects are
    never loaded.

    Parameters
    ----------
    path : str or path-like
        The file.
    format : {"svmlight", "csv", "npz", "npy"}, optional
        The format, where the name does not tell it.
    labels : str or path-like, optional
        A ``.npy`` file of labels, one for each row of a ``.npz`` or ``.npy`` file.
    label_column : {"last", "first"}, int, str or None, default="last"
        Where a CSV file has its labels: a position (counted from 0, negative from the end), a
        name in its header, or None for a file without labels. Labels may be numbers or text.
    weight_column : int, str or None, default=None
        Where a CSV file has weights of its rows, in the same words. They are no feature.
    header : bool, optional
        Whether a CSV file starts with a line of column names. By default it does if there is a name
        for a feature in its first line, or one for the label and the next label is a number. Names
        are neither numbers nor words for a missing value: nothing, ?, NA, N/A, NaN, null, none.
    text_labels : {True, None}, optional
        True: the labels of a CSV file are text, numbers among them too. By default they are if one
        of them is no number, or all are whole numbers and 64 bits do not hold one of them.
    index_base : {0, 1}, optional
        The index of the first feature in svmlight text. By default 0 if the file uses index 0
        anywhere, else 1, as in LIBSVM.
    n_features : int, optional
        The columns of svmlight text. By default as many as its largest index needs.

    Returns
    -------
    X : csr_array or ndarray of shape (n_samples, n_features)
        The rows; float64 from text, otherwise the dtype of the file, and read-only unless they had
        to be converted.
    y : ndarray of shape (n_samples,) or None
        The labels: integers if all are whole numbers, else floats or strings; None if the file
        has none.
    sample_weight : ndarray of shape (n_samples,)
        The weights; only with `weight_column`.

    Raises
    ------
    OSError
        If the file is missing or cannot be read.
    ValueError
        If the file is empty or malformed, where the message names the line of text, or for options
        that do not apply to its format.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from sublinear.datasets import load
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "two.svm")
    ...     _ = path.write_text("+1 1:0.5 3:2\\n-1 2:1\\n")
    ...     X, y = load(path)
    >>> X.shape
    (2, 3)
    >>> y.tolist()
    [1, -1]
    """
    check_number("n_features", n_features, low=1, integer=True, optional=True)
    options = {
        "labels": labels,
        "weight_column": weight_column,
        "header": header,
        "text_labels": text_labels,
        "index_base": index_base,
        "n_features": n_features,
    }
    given = {name: value for name, value in options.items() if value is not None}
    if label_column != "last":
        given["label_column"] = label_column
    data = read(path, format=format, **given)
    if weight_column is not None:
        return data.X, data.y, data.sample_weight
    return data.X, data.y


@with_parameters()
def make_sparse_classification(
    n_samples=20_000,
    n_features=20_000,
    *,
    row_entries=60,
    exponent=1.0,
    noise=0.03,
    random_state=None,
    return_coef=False,
):
    """Generate two classes of sparse rows that look like tf-idf vectors of short texts.

    Each row draws columns ("words") with probabilities that fall as a power of the column's
    rank, so a few columns are in most rows and most columns are in few. A stored value is
    1 + log count times the logarithm of the column's inverse frequency; rows have unit length.
    A planted vector splits the rows into halves, up to labels flipped at random.

    Parameters
    ----------
    n_samples : int, default=20_000
        Number of rows.
    n_features : int, default=20_000
        Number of columns.
    row_entries : float, default=60
        Mean number of stored entries in a row; less than ``n_features``. Every row has one at
        least, so a mean below 3 comes out higher.
    exponent : float, default=1.0
        The column of rank r is drawn with probability proportional to r ** -exponent;
        1.0 is Zipf's law, 0.0 draws all columns alike. The steeper it is, the more draws a row
        of many entries takes; more than 100 for each are refused.
    noise : float, default=0.03
        Fraction of labels flipped, between 0 and 0.5.
    %(random_draws)s
    return_coef : bool, default=False
        Whether to return the planted vector too.

    Returns
    -------
    X : csr_array of shape (n_samples, n_features), float64
        The rows, with sorted indices.
    y : ndarray of shape (n_samples,), int64
        Labels, -1 or +1.
    coef : ndarray of shape (n_features,), float64
        The planted vector; only with ``return_coef=True``.

    Examples
    --------
    >>> from sublinear.datasets import make_sparse_classification
    >>> X, y = make_sparse_classification(100, 50, row_entries=8, random_state=0)
    >>> X.shape, y.shape
    ((100, 50), (100,))
    """
    n_samples, n_features = check_sizes(2, n_samples=n_samples, n_features=n_features)
    check_number("row_entries", row_entries, low=0, open_low=True)
    if row_entries >= n_features:
        raise ValueError(f"row_entries must be below n_features={n_features}, got {row_entries}")
    check_number("noise", noise, low=0, high=0.5)
    check_number("exponent", exponent, low=0)
    rng = generator(random_state)
    # Shuffled, since the rank of a column of real data does not show in its number.
    probabilities = rng.permutation(np.arange(1, n_features + 1, dtype=np.float64) ** -exponent)
    probabilities /= probabilities.sum()
    X = _weigh(_draw_counts(rng, n_samples, probabilities, row_entries))
    # Scaled by frequency: a separator that lives in columns seen once could not be learnt.
    coef = rng.standard_normal(n_features) * np.sqrt(probabilities)
    margins = X @ coef
    y = np.where(margins > np.median(margins), 1, -1)
    y[rng.random(n_samples) < noise] *= -1
    return (X, y, coef) if return_coef else (X, y)


@with_parameters()
def make_tagged_sequences(
    n_sequences=1000,
    *,
    n_tags=8,
    n_symbols=500,
    symbols_per_row=2,
    mean_length=20,
    persistence=0.3,
    clarity=0.6,
    random_state=None,
    model=None,
):
    """Generate sequences of tagged rows from a hidden Markov model.

    A hidden tag goes from row to row; each row shows a few symbols drawn by its tag. The
    model is returned, so the least error that any tagger can have is known: that of
    `HiddenMarkovModel.decode`, the most probable tag given the whole sequence.

    Parameters
    ----------
    n_sequences : int, default=1000
        Number of sequences.
    n_tags, n_symbols : int, default=8, 500
        Number of tags, at least 2, and of symbols.
    symbols_per_row : int, default=2
        Independent draws; a row holds their counts.
    mean_length : float, default=20
        Lengths are 1 + a Poisson variable.
    persistence : float, default=0.3
        How likely a tag is to stay, before it changes at random; from 0 to 1.
    clarity : float, default=0.6
        How much of a tag's symbols is its own, the rest is common to all; from 0 to 1.
    %(random_draws)s
    model : HiddenMarkovModel, default=None
        Draw from this one; the parameters of a new one then have no effect.

    Returns
    -------
    X : csr_array of shape (n_rows, n_symbols), float64
        The rows of all sequences, one sequence after the other.
    y : ndarray of shape (n_rows,), int64
        Tags from 0 to n_tags - 1.
    lengths : ndarray of shape (n_sequences,), int64
        Rows of every sequence.
    model : HiddenMarkovModel

    Examples
    --------
    >>> from sublinear.datasets import make_tagged_sequences
    >>> X, y, lengths, model = make_tagged_sequences(100, random_state=0)
    >>> X.shape[0] == len(y), len(lengths)
    (True, 100)
    >>> model.least_error(X, lengths) < 0.5
    True
    """
    n_sequences, symbols_per_row = check_sizes(
        1, n_sequences=n_sequences, symbols_per_row=symbols_per_row
    )
    check_number("mean_length", mean_length, low=1)
    if not isinstance(model, (HiddenMarkovModel, type(None))):
        raise ValueError(f"model must be a HiddenMarkovModel or None, got {model!r}")
    rng = generator(random_state)
    if model is None:
        (n_symbols,) = check_sizes(1, n_symbols=n_symbols)
        (n_tags,) = check_sizes(2, n_tags=n_tags)
        check_number("persistence", persistence, low=0, high=1)
        check_number("clarity", clarity, low=0, high=1)
        model = _sequences.random_model(rng, n_tags, n_symbols, persistence, clarity)
    lengths = 1 + rng.poisson(mean_length - 1, n_sequences)
    X, y = _sequences.draw(rng, model, lengths, symbols_per_row)
    return X, y, lengths, model


def _draw_counts(rng, n_samples, probabilities, row_entries):
    """Draw each row's columns with replacement; a stored value counts the draws of a column."""
    mean_draws = _draws_for(row_entries, probabilities)
    lengths = np.maximum(rng.poisson(mean_draws, n_samples), 1)
    cumulative = np.cumsum(probabilities)
    columns = np.searchsorted(cumulative[:-1], rng.random(lengths.sum()), side="right")
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    index = np.int32 if columns.size < 2**31 else np.int64
    parts = (np.ones(columns.size), columns.astype(index), indptr.astype(index))
    counts = sparse.csr_array(parts, shape=(n_samples, probabilities.size))
    counts.sum_duplicates()
    return counts


def _draws_for(row_entries, probabilities):
    """Return how many draws hit ``row_entries`` distinct columns on average (bisection)."""
    with np.errstate(divide="ignore"):  # a very steep law has one column that is never missed
        log_missed = np.log1p(-probabilities)
    low, high = 0.0, 1.0
    while -np.expm1(high * log_missed).sum() < row_entries:
        low, high = high, 2 * high
        if low > MOST_DRAWS * max(1, row_entries):
            raise ValueError(
                f"row_entries={row_entries} different columns of a row would take more than "
                f"{MOST_DRAWS} draws each: lower row_entries or the exponent"
            )
    for _ in range(40):
        middle = (low + high) / 2
        if -np.expm1(middle * log_missed).sum() < row_entries:
            low = middle
        else:
            high = middle
    return high


def _weigh(counts):
    """Turn counts into tf-idf values, in place, and scale the rows to unit length."""
    holding = np.bincount(counts.indices, minlength=counts.shape[1])
    inverse_frequency = np.log1p(counts.shape[0] / np.maximum(holding, 1))
    counts.data = (1 + np.log(counts.data)) * inverse_frequency[counts.indices]
    # No row is empty, so reduceat's segments are the rows.
    norms = np.sqrt(np.add.reduceat(counts.data**2, counts.indptr[:-1]))
    counts.data /= np.repeat(norms, np.diff(counts.indptr))
    return counts
