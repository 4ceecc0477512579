"""The algorithms in a few lines of NumPy each: oracles for the compiled solvers.

Written from the papers, for reading and not for speed. They share nothing with the package but the
draws, which tests hand to both.
"""
