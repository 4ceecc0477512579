"""The parameters by which a fitted model predicts, whatever they have been set to since."""

from copy import deepcopy

PREDICTED_BY = ("loss", "multi_class")


def note_parameters(estimator):
    """Note the parameters by which a model will predict: those of now."""
    present = {name: getattr(estimator, name) for name in PREDICTED_BY if hasattr(estimator, name)}
    if present:
        estimator._made_with = present


def fitted_with(estimator, name):
    """Return a parameter as the last fit had it; before a fit the present one."""
    return getattr(estimator, "_made_with", {}).get(name, getattr(estimator, name, None))


def like(estimator, **changes):
    """Return an estimator with the same parameters, but for some; of a random state a copy."""
    parameters = estimator.get_params(deep=False) | changes
    return type(estimator)(**parameters | {"random_state": deepcopy(estimator.random_state)})
