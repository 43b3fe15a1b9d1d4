"""Training plans and reserved capacity: what the SSM parameter named for one says, as its Describe call answers."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from datetime import datetime
from typing import Final

from loadproof.localcloud.wire import AwsError, Caller, Params
from loadproof.wire.documents import Document

PARAMETER: Final = "/loadproof/local-cloud/reservation/"  # and the name, the last part of its ARN
_TIMES: Final = ("StartTime", "EndTime")


class ReservationOperations(ABC):
    """Of SageMaker's API; what a parameter says is the control plane's to know."""

    @abstractmethod
    def parameter_value(self, caller: Caller, name: str) -> str | None:
        """A parameter of SSM's; None where there is none."""

    def DescribeTrainingPlan(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        name = params["TrainingPlanName"]
        found = self._reservation(caller, name, "training plan")
        short = name.rpartition("/")[2]
        return {
            "TrainingPlanArn": caller.arn("sagemaker", f"training-plan/{short}"),
            "TrainingPlanName": short,
            **found,
        }

    def DescribeReservedCapacity(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        arn = params["ReservedCapacityArn"]
        return {"ReservedCapacityArn": arn, **self._reservation(caller, arn, "reserved capacity")}

    def _reservation(self, caller: Caller, name: str, what: str) -> Document:
        value = self.parameter_value(caller, PARAMETER + name.rpartition("/")[2])
        if value is None:
            raise AwsError("ResourceNotFound", f"The requested {what} {name} was not found.")
        told: Document = json.loads(value)
        return {key: datetime.fromisoformat(one) if key in _TIMES else one for key, one in told.items()}
