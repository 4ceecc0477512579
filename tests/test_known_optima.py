"""Generated problems: primal and dual value agree at the solutions that come with them."""

import numpy as np
import pytest
from reference import certificates, sublinear_perceptron
from reference.sampling import Draws
from scipy import sparse

from sublinear import datasets

MAKERS = [
    datasets.make_planted_margin,
    datasets.make_enclosing_ball,
    datasets.make_matrix_game,
    datasets.make_simplex_qp,
]


def dense(X):
    return X.toarray() if sparse.issparse(X) else X


class TestPlantedMargin:
    @pytest.mark.parametrize(
        "options",
        [
            {},
            {"lean": 2.0, "support": 0.0},
            {"support": 1.0},
            {"row_entries": 8},
            {"row_entries": 7, "lean": 1.0},
            {"row_entries": 2, "margin": 0.05},
        ],
    )
    def test_margin_is_the_largest(self, options):
        data = datasets.make_planted_margin(101, 40, random_state=0, **options)
        A = data.y[:, None] * dense(data.X)
        lower, upper = certificates.margin(A, data.coef, data.dual)
        assert lower == pytest.approx(data.margin, abs=1e-12)
        assert upper == pytest.approx(data.margin, abs=1e-12)
        assert data.dual.sum() == pytest.approx(1)
        assert data.dual.min() >= 0
        np.testing.assert_allclose(np.linalg.norm(A, axis=1), 1)
        # no part of one simplex proves the optimum
        rows = np.flatnonzero(data.dual)[: 2 if "row_entries" not in options else 1]
        assert np.linalg.norm(A[rows].mean(axis=0)) > 2 * data.margin
        assert np.linalg.norm(data.coef) == pytest.approx(1)

    def test_sparse_rows(self):
        X = datasets.make_planted_margin(100, 41, row_entries=10, random_state=1).X
        assert isinstance(X, sparse.csr_array)
        assert X.has_canonical_format
        assert set(np.diff(X.indptr)) == {10, 11}

    def test_the_mean_row_is_no_answer_where_the_others_lean(self):
        least = []
        for lean in (0.0, 2.0):
            data = datasets.make_planted_margin(400, 300, support=0.02, lean=lean, random_state=2)
            A = data.y[:, None] * data.X
            mean = A.mean(axis=0)
            least.append((A @ mean).min() / np.linalg.norm(mean))
        assert least[1] < 0.5 * least[0]

    def test_float32(self):
        data = datasets.make_planted_margin(30, 20, dtype=np.float32, random_state=0)
        assert data.X.dtype == np.float32
        assert (data.y * (data.X @ data.coef)).min() == pytest.approx(0.1, abs=1e-6)

    @pytest.mark.parametrize(
        "options, words",
        [
            ({"margin": 0.95}, "margin"),
            ({"margin": 0}, "margin"),
            ({"row_entries": 1}, "row_entries"),
            ({"row_entries": 2, "n_samples": 39}, "n_samples must be at least 40"),
            ({"support": 2}, "support"),
            ({"n_features": 1}, "n_features"),
        ],
    )
    def test_unusable_parameters(self, options, words):
        with pytest.raises(ValueError, match=words):
            datasets.make_planted_margin(
                **{"n_samples": 50, "n_features": 40, "margin": 0.01, **options}
            )


@pytest.mark.parametrize(
    "options",
    [{}, {"rank": 3}, {"support": 0.0, "lean": 3.0}, {"support": 1.0, "n_samples": 51}],
)
def test_enclosing_ball_is_the_smallest(options):
    options = {"n_samples": 60, "n_features": 7, "radius": 0.4, "random_state": 0, **options}
    data = datasets.make_enclosing_ball(**options)
    upper, lower = certificates.enclosing_ball(data.X, data.center, data.dual)
    assert lower == pytest.approx(0.16, abs=1e-12)
    assert upper == pytest.approx(0.16, abs=1e-12)
    np.testing.assert_allclose(data.dual @ data.X, data.center, atol=1e-12)
    assert np.linalg.norm(data.X, axis=1).max() <= 1 + 1e-12
    assert data.radius == 0.4


@pytest.mark.parametrize("value", [-0.5, 0.0, 0.3])
@pytest.mark.parametrize("support", [0.0, 0.4, 1.0])
def test_matrix_game_has_its_value(value, support):
    game = datasets.make_matrix_game(13, 9, value=value, support=support, random_state=1)
    upper, lower = certificates.matrix_game(game.A, game.column_strategy, game.row_strategy)
    assert lower == pytest.approx(value, abs=1e-12)
    assert upper == pytest.approx(value, abs=1e-12)
    assert np.abs(game.A).max() <= 1
    assert (game.row_strategy > 0).sum() == max(1, round(support * 13))


@pytest.mark.parametrize("shape", [(1, 2), (3, 1), (1, 1), (2, 1)])
@pytest.mark.parametrize("seed", range(10))
def test_matrix_game_of_a_player_with_one_strategy(shape, seed):
    game = datasets.make_matrix_game(*shape, value=0.1, support=1.0, random_state=seed)
    upper, lower = certificates.matrix_game(game.A, game.column_strategy, game.row_strategy)
    assert lower == pytest.approx(0.1, abs=1e-9) and upper == pytest.approx(0.1, abs=1e-9)


def test_matrix_game_of_one_strategy_each():
    game = datasets.make_matrix_game(1, 1, value=0.25, random_state=0)
    np.testing.assert_array_equal(game.A, [[0.25]])


@pytest.mark.parametrize("support", [0.0, 0.2, 1.0])
def test_simplex_qp_has_its_value(support):
    qp = datasets.make_simplex_qp(40, 12, support=support, random_state=2)
    upper, lower = certificates.simplex_qp(qp.A, qp.b, qp.p)
    assert lower == pytest.approx(qp.value, abs=1e-12)
    assert upper == pytest.approx(qp.value, abs=1e-12)


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: datasets.make_planted_margin(20, 10, random_state=seed).X,
        lambda seed: datasets.make_enclosing_ball(20, 10, random_state=seed).X,
        lambda seed: datasets.make_matrix_game(20, 10, random_state=seed).A,
        lambda seed: datasets.make_simplex_qp(20, 10, random_state=seed).A,
        lambda seed: datasets.make_lower_bound_instance(20, 10, random_state=seed).X,
    ],
)
def test_same_seed_same_data(make):
    np.testing.assert_array_equal(make(3), make(3))
    assert not np.array_equal(make(3), make(4))
    make(np.random.default_rng(0))
    make(np.random.RandomState(0))


class Watched:
    """A matrix that the sublinear perceptron reads; remembers whether it read one entry."""

    def __init__(self, A, entry):
        self.A, self.entry, self.values, self.found = A, entry, 0, False

    def __len__(self):
        return len(self.A)

    shape = property(lambda self: self.A.shape)

    def __getitem__(self, place):
        read = self.A[place]
        self.values += np.size(read)
        row = place[0] if isinstance(place, tuple) else place
        column = place[1] if isinstance(place, tuple) else slice(None)
        here = np.zeros(self.A.shape, dtype=bool)
        here[row, column] = True
        self.found = self.found or here[self.entry]
        return read


class TestLowerBoundInstance:
    """Theorems VII.1 and VII.6: what has not met the one entry cannot know the answer."""

    def pair(self, n=32, d=32, seed=0, **options):
        return [
            datasets.make_lower_bound_instance(n, d, answer=a, random_state=seed, **options)
            for a in (True, False)
        ]

    @pytest.mark.parametrize(
        "n, d, width", [(8, 5, None), (2, 2, None), (8, 2, None), (6, 3, None), (40, 4, 1e3)]
    )
    def test_margins(self, n, d, width):
        yes, no = self.pair(n, d, width=width)
        A = yes.X
        used = np.unique(A.argmax(axis=1), return_index=True)[1]
        p = np.zeros(n)
        p[used] = 1 / len(used)
        x = A.T @ p
        lower, upper = certificates.margin(A, x / np.linalg.norm(x), p)
        assert lower == pytest.approx(upper) == pytest.approx(yes.margin)
        row, _ = no.entry
        p = np.zeros(n)
        p[[row, row - n // 2]] = 0.5
        x = no.X.T @ p
        lower, upper = certificates.margin(no.X, x / np.linalg.norm(x), p)
        assert lower == pytest.approx(upper) == pytest.approx(no.margin)
        np.testing.assert_allclose(np.linalg.norm(no.X, axis=1), 1)

    def test_one_entry_differs(self):
        yes, no = self.pair()
        assert list(zip(*np.nonzero(yes.X != no.X), strict=True)) == [yes.entry]
        assert yes.entry == no.entry
        assert yes.answer and not no.answer

    def test_answers_are_drawn_evenly(self):
        answers = [
            datasets.make_lower_bound_instance(4, 2, random_state=k).answer for k in range(99)
        ]
        assert 30 < sum(answers) < 70

    @pytest.mark.parametrize("share", [0.02, 0.1])
    def test_who_reads_little_mostly_sees_the_same_in_both(self, share):
        """The sublinear perceptron with a budget of a share of the matrix; 60 instances.

        Unless the entry was read, everything the algorithm did is the same for YES and NO. It
        reads columns by the squares of x, rows by p, both as good as uniform here: the chance
        of meeting the entry is about the share read.
        """
        met = 0
        for seed in range(60):
            yes, no = self.pair(200, 200, seed=seed)
            budget = share * yes.X.size
            seen = []
            for instance in (yes, no):
                A = Watched(instance.X, instance.entry)
                steps = sublinear_perceptron.perceptron(A, 1000, 0.05, Draws(seed))
                x, p, _ = next(step for step in steps if A.values >= budget)
                seen.append((A.found, x, p))
            assert seen[0][0] == seen[1][0]
            if not seen[0][0]:
                np.testing.assert_array_equal(seen[0][1], seen[1][1])
                np.testing.assert_array_equal(seen[0][2], seen[1][2])
            met += seen[0][0]
        # a right answer in 2/3 of the cases needs the entry in a third of them (the rest is
        # a guess); this many reads do not give that
        assert met < 60 / 3

    def test_a_whole_pass_tells_them_apart(self):
        yes, no = self.pair(8, 5)
        p_no = np.zeros(8)
        p_no[[no.entry[0], no.entry[0] - 4]] = 0.5
        # the dual value of NO proves that no vector has the margin that x has in YES
        x = yes.X.mean(axis=0)
        assert (yes.X @ x).min() / np.linalg.norm(x) > np.linalg.norm(no.X.T @ p_no)

    @pytest.mark.parametrize(
        "options, words", [({"n_samples": 3}, "even"), ({"width": 3}, "width")]
    )
    def test_unusable_parameters(self, options, words):
        with pytest.raises(ValueError, match=words):
            datasets.make_lower_bound_instance(**{"n_samples": 4, "n_features": 5, **options})


@pytest.mark.parametrize("dtype", [int, complex, np.float16])
@pytest.mark.parametrize("make", MAKERS)
def test_types_that_cannot_hold_a_known_optimum(make, dtype):
    with pytest.raises(ValueError, match="dtype must be float64 or float32"):
        make(60, 40, dtype=dtype)


@pytest.mark.parametrize("make", [*MAKERS, datasets.make_lower_bound_instance])
def test_sizes_of_any_integer_type(make):
    for known, same in zip(
        make(100, 40, random_state=0), make(np.uint8(100), np.int8(40), random_state=0), strict=True
    ):
        np.testing.assert_array_equal(known, same)


def test_an_answer_is_yes_or_no():
    with pytest.raises(ValueError, match="answer must be True or False or None"):
        datasets.make_lower_bound_instance(8, 4, answer="no")


@pytest.mark.parametrize("make", [datasets.make_planted_margin, datasets.make_enclosing_ball])
def test_rows_that_lean_beyond_all_numbers(make):
    with pytest.raises(ValueError, match="lean"):
        make(60, 40, lean=1e308)
