"""Result files of other load generators, and our own, read into the same records. What a file is, its content says."""

from loadproof.bench.imports.detect import read_measured
from loadproof.bench.imports.levels import MeasuredLevel

__all__ = ["MeasuredLevel", "read_measured"]
