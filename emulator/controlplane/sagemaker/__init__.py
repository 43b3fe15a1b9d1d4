"""SageMaker's hosting API: models, endpoint configurations, endpoints, inference components."""

from emulator.controlplane.sagemaker.api import SageMakerApi
from emulator.controlplane.sagemaker.store import Store, Timing

__all__ = ["SageMakerApi", "Store", "Timing"]
