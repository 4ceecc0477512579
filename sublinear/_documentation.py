"""Parts of docstrings that several classes or functions have in common."""

import inspect

WATCHERS = """\
verbose : int, default=0
        1: show progress and the gap on stderr.
    callback : callable, default=None
        Called with a Snapshot at every certificate; stops the fit by returning True."""

# Of several files: any docstring, and any text of one, may name these. Those that the classes or
# functions of one file share are in that file.
SHARED = {
    "rows": """\
X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Dense or CSR, float32 or float64, is used as it is; other types are converted.""",
    "new_rows": """\
X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Rows with the features of the fit.""",
    "labels": """\
y : array-like of shape (n_samples,)
        Labels; with more than two classes, one-vs-rest.""",
    "multiclass_labels": """\
y : array-like of shape (n_samples,)
        Labels; with more than two classes, `multi_class` says how.""",
    "numbers": """\
y : array-like of shape (n_samples,)
        Numbers.""",
    "sample_weight": """\
sample_weight : array-like of shape (n_samples,), default=None
        Not negative; a weight k counts like k copies of the example.""",
    "all_classes": """\
classes : array-like of shape (n_classes,), default=None
        All labels that will ever come; needed at the first call.""",
    "intercept_scaling": """\
intercept_scaling : float, default=1.0
        Value of the constant feature; the larger, the less the intercept is penalised.""",
    "class_weight": """\
class_weight : dict, "balanced" or None, default=None
        Factors on the weights of the examples by class; "balanced" gives all the same total.""",
    "smoothing": """\
smoothing : float, default=1.0
        Width of the rounding of loss="smoothed_hinge".""",
    "zone": """\
epsilon : float, default=0.1
        Width of the insensitive or quadratic zone, in the units of y; positive for "huber".
        (StreamingSVRGRegressor's is 1.35 by default.)""",
    "watchers": WATCHERS,
    "class_watchers": f"""{WATCHERS} Where
        every class is fitted on its own, it stops that one alone.""",
    "feature_names": """\
feature_names_in_ : ndarray of shape (n_features,)
        Where X has names for its columns, as a data frame does.""",
    "stream_summary": """\
stream_ : StreamSummary
        After `fit_stream`: its blocks and rows, and malformed lines left out.""",
    "degree": """\
degree : int, default=3
        The power of kernel="poly", from 0 to 1000.""",
    "coef0": """\
coef0 : float, default=0.0
        What kernels that have it add to gamma <x, z>.""",
    "draws": """\
random_state : int, RandomState, Generator or None, default=None
        Seeds the draws.""",
    "random_draws": """\
random_state : None, int, RandomState or Generator, default=None
        Seed or source of the random draws.""",
}


def with_parameters(**texts):
    """Return a decorator that puts texts where a docstring has %(name)s, or else SHARED ones.

    Texts are indented as that of a class is in the source; Python takes that off from 3.13 on.
    """

    def decorate(documented):
        if documented.__doc__:
            whole = inspect.cleandoc(documented.__doc__)
            for name, text in (*texts.items(), *SHARED.items()):
                whole = whole.replace(f"%({name})s", text.rstrip().replace("\n    ", "\n"))
            documented.__doc__ = whole
        return documented

    return decorate
