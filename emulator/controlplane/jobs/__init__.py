"""What runs to an end: state machines, and the Processing jobs they start."""

from emulator.controlplane.jobs.machines import MachineApi
from emulator.controlplane.jobs.processing import JobRunner, ProcessingOperations

__all__ = ["JobRunner", "MachineApi", "ProcessingOperations"]
