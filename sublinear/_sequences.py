"""Hidden Markov models whose tags are known: sequences to learn from, and the least error."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.special import logsumexp

from sublinear._documentation import with_parameters
from sublinear._validation import sequence_offsets

SMALLEST = 1e-300  # stands in for a probability of 0 under the logarithm

_documented = with_parameters(
    X="""\
X : {ndarray, sparse matrix} of shape (n_rows, n_symbols)
        Counts of symbols.""",
    lengths="""\
lengths : array-like of shape (n_sequences,)
        How many rows of X each sequence has, one sequence after the other.""",
)


@dataclass(frozen=True)
class HiddenMarkovModel:
    """A chain of hidden tags, each of which emits symbols.

    Attributes
    ----------
    start : ndarray of shape (n_tags,)
        Probabilities of the first tag.
    transition : ndarray of shape (n_tags, n_tags)
        Row: the probabilities of the next tag.
    emission : ndarray of shape (n_tags, n_symbols)
        Row: the probabilities of a symbol. The symbols of one position are independent.

    Examples
    --------
    >>> import numpy as np
    >>> from sublinear.datasets import HiddenMarkovModel
    >>> model = HiddenMarkovModel(np.array([1.0, 0.0]), np.eye(2)[::-1], np.eye(2))
    >>> model.transition.tolist()  # its two tags take turns
    [[0.0, 1.0], [1.0, 0.0]]
    """

    start: np.ndarray
    transition: np.ndarray
    emission: np.ndarray

    @_documented
    def log_emissions(self, X):
        """Return the log probability of every row's symbols under every tag, up to a constant.

        Parameters
        ----------
        %(X)s

        Returns
        -------
        log_emissions : ndarray of shape (n_rows, n_tags)
        """
        return X @ np.log(np.maximum(self.emission, SMALLEST)).T

    @_documented
    def posteriors(self, X, lengths):
        """Return the probability of every tag at every row, given the whole sequence.

        By the forward and backward recursions, for all sequences of one length at once.

        Parameters
        ----------
        %(X)s
        %(lengths)s

        Returns
        -------
        posteriors : ndarray of shape (n_rows, n_tags)
        """
        emitted = self.log_emissions(X)
        offsets = sequence_offsets(lengths, len(emitted))
        first, lengths = offsets[:-1], np.diff(offsets)
        result = np.empty_like(emitted)
        for length in np.unique(lengths):
            rows = first[lengths == length, np.newaxis] + np.arange(length)
            result[rows] = self._posteriors(emitted[rows])
        return result

    def _posteriors(self, emitted):
        """The posteriors from log emissions of shape (n_sequences, length, n_tags)."""
        step = np.log(np.maximum(self.transition, SMALLEST))
        forward, backward = np.empty_like(emitted), np.zeros_like(emitted)
        forward[:, 0] = np.log(np.maximum(self.start, SMALLEST)) + emitted[:, 0]
        for t in range(1, emitted.shape[1]):
            arriving = forward[:, t - 1, :, np.newaxis] + step
            forward[:, t] = logsumexp(arriving, axis=1) + emitted[:, t]
        for t in range(emitted.shape[1] - 2, -1, -1):
            leaving = step + (emitted[:, t + 1] + backward[:, t + 1])[:, np.newaxis, :]
            backward[:, t] = logsumexp(leaving, axis=2)
        together = forward + backward
        return np.exp(together - logsumexp(together, axis=2, keepdims=True))

    @_documented
    def decode(self, X, lengths):
        """Return the most probable tag of every row: no rule makes fewer errors on average.

        Parameters
        ----------
        %(X)s
        %(lengths)s

        Returns
        -------
        tags : ndarray of shape (n_rows,), int
        """
        return self.posteriors(X, lengths).argmax(axis=1)

    @_documented
    def least_error(self, X, lengths):
        """Return the expected fraction of wrong tags of `decode` on these rows.

        Parameters
        ----------
        %(X)s
        %(lengths)s

        Returns
        -------
        error : float
        """
        return float(np.mean(1 - self.posteriors(X, lengths).max(axis=1)))


def random_model(rng, n_tags, n_symbols, persistence, clarity):
    """Draw a model; see `make_tagged_sequences`."""
    transition = rng.dirichlet(np.full(n_tags, 1.0), size=n_tags)
    transition = persistence * np.eye(n_tags) + (1 - persistence) * transition
    common = rng.permutation(1 / np.arange(1, n_symbols + 1))
    common /= common.sum()
    own = common * rng.gamma(0.3, size=(n_tags, n_symbols))
    own /= own.sum(axis=1, keepdims=True)
    emission = clarity * own + (1 - clarity) * common
    return HiddenMarkovModel(rng.dirichlet(np.full(n_tags, 5.0)), transition, emission)


def draw(rng, model, lengths, symbols_per_row):
    """Return counts of symbols (CSR) and tags for sequences of the lengths."""
    n_rows, first = lengths.sum(), np.cumsum(lengths) - lengths
    begins = np.zeros(n_rows, dtype=bool)
    begins[first] = True
    chances = rng.random(n_rows)
    start, steps = np.cumsum(model.start), np.cumsum(model.transition, axis=1)
    tags = np.empty(n_rows, dtype=np.int64)
    for row in range(n_rows):
        cumulative = start if begins[row] else steps[tags[row - 1]]
        tags[row] = np.searchsorted(cumulative[:-1], chances[row], side="right")
    emitting = np.cumsum(model.emission, axis=1)
    symbols = np.empty((n_rows, symbols_per_row), dtype=np.int32)
    for tag in range(len(start)):
        rows = tags == tag
        where = rng.random((np.count_nonzero(rows), symbols_per_row))
        symbols[rows] = np.searchsorted(emitting[tag][:-1], where, side="right")
    offsets = np.arange(n_rows + 1, dtype=np.int32) * symbols_per_row
    parts = (np.ones(symbols.size), symbols.ravel(), offsets)
    X = sparse.csr_array(parts, shape=(n_rows, model.emission.shape[1]))
    X.sum_duplicates()
    return X, tags
