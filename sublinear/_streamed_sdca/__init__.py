"""Dual coordinate ascent over a source: the duals stay in memory, the rows come block by block.

The first pass counts; each further pass is an epoch or a certificate. All one-vs-rest problems
share every pass. Per example, 8 bytes for the dual and one for its sleep are kept for each problem.
Where steps of single duals creep, a proximal Newton method takes their place, a pass a step; it
keeps another 8 bytes, and 8 more for certificates. With an intercept without penalty these take
a pass more, for the masses of their duals, which ascent knows.
"""
