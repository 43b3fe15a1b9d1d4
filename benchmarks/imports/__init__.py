"""Result files of other load generators, and our own, read into the same records. What a file is, its content says."""

from benchmarks.imports.detect import read_measured
from benchmarks.imports.levels import MeasuredLevel

__all__ = ["MeasuredLevel", "read_measured"]
