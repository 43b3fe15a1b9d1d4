"""What CloudWatch refuses of dashboards, which are moto's."""

from __future__ import annotations

import re

from loadproof.localcloud.refusals.rules import Rule, require
from loadproof.localcloud.wire import Caller, Params


def _put(caller: Caller, params: Params) -> None:
    message = (
        "The value for field DashboardName contains invalid characters. It can only contain alphanumerics, dash "
        "(-) and "
        "underscore (_)."
    )
    require(re.fullmatch(r"[\w-]+", params["DashboardName"]), "InvalidParameterValue", message)


RULES: dict[str, Rule] = {"PutDashboard": _put}
