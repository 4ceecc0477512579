"""The loops of panel.h, in the widest lanes that this processor has."""

cdef const panel_functions* _chosen = NULL


def use_lanes(int lanes):
    """Use loops of 16, 8 or 4 float32 lanes; returns whether this processor can. For tests."""
    global _chosen
    cdef const panel_functions* functions = panel_choose(lanes)
    if functions == NULL:
        return False
    _chosen = functions
    return True


cdef const panel_functions* panels() noexcept nogil:
    return _chosen


if not use_lanes(16) and not use_lanes(8):
    use_lanes(4)


cdef Py_ssize_t padded(Py_ssize_t count) noexcept nogil:
    """The next multiple of a panel's examples."""
    return (count + PANEL - 1) // PANEL * PANEL
