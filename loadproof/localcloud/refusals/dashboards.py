"""What CloudWatch refuses of dashboards, which are moto's."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from loadproof.localcloud.refusals.rules import Rule, require
from loadproof.localcloud.wire import Caller, Params
from loadproof.wire.documents import Json


def _put(caller: Caller, params: Params) -> None:
    message = (
        "The value for field DashboardName contains invalid characters. It can only contain alphanumerics, dash "
        "(-) and "
        "underscore (_)."
    )
    require(re.fullmatch(r"[\w-]+", params["DashboardName"]), "InvalidParameterValue", message)
    found = list(_dashboard_faults(str(params.get("DashboardBody", ""))))
    told = f"The dashboard body is invalid, there are {len(found)} validation errors: {'; '.join(found)}"
    require(not found, "InvalidParameterInput", told)


def _dashboard_faults(text: str) -> Iterator[str]:
    """What CloudWatch refuses of a dashboard's body and moto takes. Source: dashboard body structure, API reference."""
    try:
        body = json.loads(text)
    except ValueError as error:
        yield f"Invalid JSON: {error}"
        return
    if not isinstance(body, dict) or not isinstance(body.get("widgets"), list):
        yield 'The body must be an object with a list "widgets"'
        return
    if len(body["widgets"]) > _MOST_WIDGETS:
        yield f"A dashboard has up to {_MOST_WIDGETS} widgets, found {len(body['widgets'])}"
    for index, widget in enumerate(body["widgets"]):
        yield from (f"/widgets/{index}: {fault}" for fault in _widget_faults(widget))


_MOST_WIDGETS = 500
_WIDGETS = ("alarm", "custom", "explorer", "log", "metric", "text")
_GRID = {"x": (0, 23), "y": (0, 1_000_000), "width": (1, 24), "height": (1, 1000)}


def _widget_faults(widget: Json) -> Iterator[str]:
    if not isinstance(widget, dict) or widget.get("type") not in _WIDGETS:
        yield f"type must be one of {', '.join(_WIDGETS)}"
        return
    for name, (low, high) in _GRID.items():
        value = widget.get(name, low)
        if not isinstance(value, int) or not low <= value <= high:
            yield f"{name} must be between {low} and {high}, found {value}"
    properties = widget.get("properties")
    if not isinstance(properties, dict):
        yield "properties is required"
        return
    if widget["type"] == "text" and not properties.get("markdown"):
        yield "properties.markdown is required"
    if widget["type"] == "metric":
        if not properties.get("region") and not properties.get("annotations", {}).get("alarms"):
            yield "properties.region is required"
        if not properties.get("metrics") and not properties.get("annotations", {}).get("alarms"):
            yield "properties.metrics is required, or an alarm of properties.annotations"
        for row in properties.get("metrics", []):
            if not isinstance(row, list) or not row or len([part for part in row if isinstance(part, str)]) == 1:
                yield f"metrics must be lists of a namespace, a name and dimensions, found {row}"


RULES: dict[str, Rule] = {"PutDashboard": _put}
