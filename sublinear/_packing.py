"""Which fits work on a packed copy of the rows."""

from sublinear._core.packed import can_pack, packing_rounds

ROUNDED_TOL = 1e-6  # what values rounded to float32 can surely reach


def packs(model, matrix, pays):
    """Tell whether a model should pack rows; "auto" does if that pays and can do no harm."""
    if model.pack != "auto":
        return model.pack
    if not (pays and can_pack(matrix)):
        return False
    # rounded values move the optimum a little; whether there are any takes a look at all of them
    return model.tol >= ROUNDED_TOL or not packing_rounds(matrix)


def packed_or_not(model, make, pack):
    """Return make(pack), or make(False) where "auto" chose to pack what cannot be packed."""
    try:
        return make(pack)
    except OverflowError:
        if model.pack != "auto":
            raise
        return make(False)
