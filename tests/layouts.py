"""The same matrix, stored in other ways."""

from scipy import sparse


def csr(X, values=float, indices="int32"):
    """Return CSR rows with these types of values and of indices."""
    rows = sparse.csr_array(X.astype(values))
    rows.indices, rows.indptr = rows.indices.astype(indices), rows.indptr.astype(indices)
    return rows
