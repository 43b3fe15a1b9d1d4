"""SageMaker's hosting API: models, endpoint configurations, endpoints, inference components."""

from loadproof.localcloud.controlplane.sagemaker.api import SageMakerApi
from loadproof.localcloud.controlplane.sagemaker.store import Store, Timing

__all__ = ["SageMakerApi", "Store", "Timing"]
