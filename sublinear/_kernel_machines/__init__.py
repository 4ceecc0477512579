"""What kernel machines, and sublinear problems in the space of a kernel, share."""
