"""Tagging error over epochs: SequencePegasos beside python-crfsuite and the least error there is.

Sequences come from a known hidden Markov model, so the error of the best possible tagger is known.
Needs python-crfsuite (`pip install ".[bench]"`) for its curve; without it there is none.
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from common import command_line, write
from threadpoolctl import threadpool_limits

from sublinear import SequencePegasos
from sublinear.datasets import make_tagged_sequences

sys.path.append(str(Path(__file__).parents[2] / "tests"))
from reference.chain_pegasos import as_array, chain_pegasos

try:
    import pycrfsuite
except ImportError:
    pycrfsuite = None

TASK = {
    "n_tags": 12,
    "n_symbols": 2000,
    "symbols_per_row": 6,
    "mean_length": 20,
    "persistence": 0.6,
    "clarity": 0.8,
}
N_TRAIN, N_TEST = 3000, 2000
EPOCHS = (1, 2, 5, 10, 20, 50)
# per sequence: alpha of ours is 2 c2 / n of crfsuite
ALPHAS = (1e-2, 3e-3, 1e-3, 3e-4)
PENALTIES = (0.03, 0.1, 0.3, 1.0)
MANY = 200  # iterations of L-BFGS, by which it has come to rest
REPETITIONS = 3
FEW = 100  # sequences of the loop in NumPy: time per sequence is what counts


class Data:
    """Training, validation and test sequences of one model."""

    def __init__(self):
        *self.train, self.model = make_tagged_sequences(N_TRAIN, random_state=0, **TASK)
        self.valid = make_tagged_sequences(N_TEST, random_state=1, model=self.model, **TASK)[:3]
        self.test = make_tagged_sequences(N_TEST, random_state=2, model=self.model, **TASK)[:3]


def split(X, y, lengths):
    ends = np.cumsum(lengths)[:-1]
    starts = np.concatenate([[0], ends])
    stops = np.concatenate([ends, [len(y)]])
    return [(X[a:b], y[a:b]) for a, b in zip(starts, stops, strict=True)]


def ours(alpha, epochs):
    return SequencePegasos(alpha=alpha, max_iter=epochs, tol=0, random_state=0)


def errors_of_ours(data, alpha, part):
    """Return the errors after EPOCHS."""
    return [
        1 - ours(alpha, epochs).fit(*data.train).score(*getattr(data, part)) for epochs in EPOCHS
    ]


def items(X):
    """The rows of a CSR matrix as crfsuite wants them: lists of dicts, one for each row."""
    pairs = zip(np.split(X.indices, X.indptr[1:-1]), np.split(X.data, X.indptr[1:-1]), strict=True)
    return [{str(j): float(v) for j, v in zip(*pair, strict=True)} for pair in pairs]


def crf_sequences(X, y, lengths):
    ends = np.cumsum(lengths)[:-1]
    rows, tags = np.array(items(X), dtype=object), y.astype(str)
    return [
        (pycrfsuite.ItemSequence(list(part)), list(labels))
        for part, labels in zip(np.split(rows, ends), np.split(tags, ends), strict=True)
    ]


class CRF:
    """A linear-chain CRF by L-BFGS."""

    def __init__(self, sequences, penalty):
        self.trainer = pycrfsuite.Trainer(verbose=False)
        for rows, tags in sequences:
            self.trainer.append(rows, tags)
        self.penalty = penalty

    def fit(self, iterations):
        """Return the seconds it took."""
        self.trainer.set_params({"c1": 0.0, "c2": self.penalty, "max_iterations": iterations})
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder, "model"))
            began = time.perf_counter()
            self.trainer.train(path)
            seconds = time.perf_counter() - began
            self.tagger = pycrfsuite.Tagger()
            self.tagger.open(path)
            return seconds

    def error(self, sequences):
        wrong = total = 0
        for rows, tags in sequences:
            wrong += sum(a != b for a, b in zip(self.tagger.tag(rows), tags, strict=True))
            total += len(tags)
        return wrong / total


def compare_errors(data):
    """Return the numbers of the figure; penalties are chosen on the validation sequences."""
    found = {alpha: errors_of_ours(data, alpha, "valid") for alpha in ALPHAS}
    alpha = min(ALPHAS, key=lambda alpha: found[alpha][-1])
    numbers = {
        "least_error": data.model.least_error(data.test[0], data.test[2]),
        "error_of_the_model": float(
            np.mean(data.model.decode(data.test[0], data.test[2]) != data.test[1])
        ),
        "epochs": EPOCHS,
        "validation_errors": {str(alpha): errors for alpha, errors in found.items()},
        "alpha": alpha,
        "sublinear": errors_of_ours(data, alpha, "test"),
    }
    if pycrfsuite is not None:
        train, valid, test = (crf_sequences(*part) for part in (data.train, data.valid, data.test))
        models = {penalty: CRF(train, penalty) for penalty in PENALTIES}
        reached = {}
        for penalty, model in models.items():
            model.fit(MANY)
            reached[penalty] = model.error(valid)
        best = min(reached, key=reached.get)
        numbers["c2"] = best
        numbers["crfsuite_validation_errors"] = {str(p): e for p, e in reached.items()}
        numbers["crfsuite_after_many"] = models[best].error(test)
        curve = []
        for epochs in EPOCHS:
            models[best].fit(epochs)
            curve.append(models[best].error(test))
        numbers["crfsuite"] = curve
    return numbers


def epoch_seconds(data):
    """Return median seconds per epoch of the whole training set, interleaved, and ratios."""
    few = split(*data.train)[:FEW]
    k, d = TASK["n_tags"], TASK["n_symbols"]
    tokens = {"all": int(data.train[2].sum()), "few": sum(len(y) for _, y in few)}
    crf = None if pycrfsuite is None else CRF(crf_sequences(*data.train), 1.0)
    seconds = {"sublinear": [], "the same loop in NumPy": [], "crfsuite": []}
    for _ in range(REPETITIONS):
        began = time.perf_counter()
        short = ours(1e-3, 1).fit(*data.train)
        middle = time.perf_counter()
        long = ours(1e-3, 6).fit(*data.train)
        assert long.n_iter_ == short.n_iter_ + 5
        seconds["sublinear"].append((time.perf_counter() - middle - (middle - began)) / 5)
        began = time.perf_counter()
        for w in chain_pegasos(few, d, k, 1e-3, ([i] for i in range(FEW))):
            last = w
        taken = time.perf_counter() - began
        assert as_array(last).shape == (k + 1 + d, k)
        seconds["the same loop in NumPy"].append(taken * tokens["all"] / tokens["few"])
        if crf is not None:
            few_iterations, more = crf.fit(5), crf.fit(15)
            seconds["crfsuite"].append((more - few_iterations) / 10)
    medians = {name: statistics.median(values) for name, values in seconds.items() if values}
    return {name: {"ratio": value / medians["sublinear"]} for name, value in medians.items()}


def table(numbers, ratios):
    """Return the table of the docs."""

    def percent(value):
        return f"{100 * value:.2f} %"

    rows = [
        ["SequencePegasos", *map(percent, numbers["sublinear"]), "1"],
        ["python-crfsuite, L-BFGS", *map(percent, numbers.get("crfsuite", [])), ""],
    ]
    if "crfsuite" in numbers:
        rows[1][-1] = f"{ratios['crfsuite']['ratio']:.1f}"
    else:
        rows.pop()
    ratio = ratios["the same loop in NumPy"]["ratio"]
    rows.append(["the loop of SequencePegasos in NumPy", *[""] * len(EPOCHS), f"{ratio:.0f}"])
    header = ["test error after epochs", *map(str, EPOCHS), "seconds per epoch, ratio"]
    lines = [header, ["---"] * len(header), *rows]
    least = f"The least error there is: {percent(numbers['least_error'])} expected, "
    least += f"{percent(numbers['error_of_the_model'])} on these test sequences."
    if "crfsuite" in numbers:
        least += (
            f" python-crfsuite after {MANY} iterations: {percent(numbers['crfsuite_after_many'])}."
        )
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + f"\n\n{least}\n"


def draw(numbers):
    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    axes.semilogx(
        EPOCHS, 100 * np.array(numbers["sublinear"]), "o-", color="#0072b2", label="SequencePegasos"
    )
    if "crfsuite" in numbers:
        axes.semilogx(
            EPOCHS,
            100 * np.array(numbers["crfsuite"]),
            "s-",
            color="#d55e00",
            label="python-crfsuite (CRF, L-BFGS)",
        )
    axes.axhline(
        100 * numbers["error_of_the_model"],
        color="0.4",
        linestyle="--",
        linewidth=1,
        label="the hidden Markov model itself",
    )
    axes.set_ylim(top=min(axes.get_ylim()[1], 300 * numbers["error_of_the_model"]))
    axes.set_xlabel("epochs (L-BFGS: iterations)")
    axes.set_ylabel("wrong tags, %")
    axes.grid(alpha=0.25)
    axes.legend()
    return figure


def main():
    arguments = command_line(__doc__.splitlines()[0])
    with threadpool_limits(1):
        data = Data()
        numbers = compare_errors(data)
        ratios = epoch_seconds(data)
    numbers |= {"task": TASK, "n_train": N_TRAIN, "n_test": N_TEST, "seconds_per_epoch": ratios}
    text = table(numbers, ratios)
    print(text)
    figure = draw(numbers)
    write(figure, numbers, arguments.output, "tagging", uses_data=False, text=text)


if __name__ == "__main__":
    main()
