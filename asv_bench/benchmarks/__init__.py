"""Benchmarks of sublinear, for airspeed velocity (asv)."""
