"""The SageMaker runtime of the local cloud. `Runtime(directory, ...).setup(app)` puts it on an aiohttp application."""

from emulator.runtime.service import Limits, Runtime

__all__ = ["Limits", "Runtime"]
