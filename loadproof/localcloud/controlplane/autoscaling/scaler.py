"""Applies policies and schedules to scalable targets: what is asked for, what is done, and what came of it.

As documented, with what is not documented decided so: metric values of a period that began before the last change was
complete are taken for the copies of that time; target tracking scales in to what the largest of 15 low values needs,
all of them measured since the last scale-out (what has just been woken is not sent back to sleep by its idle past).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from loadproof.localcloud.clock import CloudClock
from loadproof.localcloud.controlplane.autoscaling.decisions import step_capacity, tracking_capacity
from loadproof.localcloud.controlplane.autoscaling.schedules import is_due
from loadproof.localcloud.controlplane.autoscaling.targets import Activity, Capacity, Cooldown, Policy, Target
from loadproof.localcloud.controlplane.cloudwatch.evaluation import Breach
from loadproof.localcloud.wire import AwsError
from loadproof.wire.documents import Document

_DEFAULT_COOLDOWN_S = 300.0


class Scaled(Protocol):
    """What is scaled: SageMaker."""

    def capacity(self, target: Target) -> Capacity | None:
        """None when there is no such resource any more."""
        ...

    def set_capacity(self, target: Target, capacity: int) -> None:
        """Raises AwsError when the service refuses."""
        ...


@dataclass(frozen=True, slots=True)
class DesiredCapacity:
    """The capacity that one policy asks for because of one alarm; before the target's bounds."""

    policy: Policy
    alarm: str
    capacity: int

    @property
    def cause(self) -> str:
        return f"monitor alarm {self.alarm} in state ALARM triggered policy {self.policy.name}"


class Scaler:
    """Alarms call it from any thread (`called`); `apply` runs in one."""

    def __init__(self, clock: CloudClock, scaled: Scaled) -> None:
        self._clock, self._scaled = clock, scaled
        self._lock = threading.Lock()
        self._called: dict[tuple[str, str], Breach] = {}  # (policy ARN, alarm)
        self._scheduled_until_s = clock.now_s()

    def called(self, policy_arn: str, breach: Breach) -> None:
        """An alarm calls a policy; nothing happens before the next `apply`."""
        with self._lock:
            self._called[policy_arn, breach.alarm] = breach

    def apply(self, targets: Iterable[Target]) -> None:
        """Bring every target up to now."""
        with self._lock:
            called, self._called = self._called, {}
        now_s = self._clock.now_s()
        after_s, self._scheduled_until_s = self._scheduled_until_s, now_s
        for target in targets:
            if target.under_way is not None:
                self._settle(target, target.under_way, now_s)
            if target.scheduled:
                self._run_schedules(target, after_s, now_s)
            if target.bounds_changed:
                self._enforce_bounds(target, now_s)
            breaches = [
                (policy, breach)
                for policy in list(target.policies.values())
                for (arn, _), breach in called.items()
                if arn == policy.arn
            ]
            if breaches:
                self._follow(target, breaches, now_s)

    # --------------------------------------------------------------------------------------------------- policies

    def _follow(self, target: Target, breaches: Sequence[tuple[Policy, Breach]], now_s: float) -> None:
        """The largest wish to grow wins. Target tracking takes away only when all its policies agree."""
        capacity = self._scaled.capacity(target)
        if capacity is None:
            return
        desired_capacities = [
            desired
            for policy, breach in breaches
            if (desired := self._desired_capacity(target, policy, breach, capacity, now_s)) is not None
        ]
        grow = [desired for desired in desired_capacities if desired.capacity > capacity.desired]
        if grow:
            if not target.suspended["DynamicScalingOutSuspended"]:
                self._move(target, capacity, max(grow, key=lambda desired: desired.capacity), now_s)
            return
        shrink = [desired for desired in desired_capacities if desired.capacity < capacity.desired]
        if not shrink or target.suspended["DynamicScalingInSuspended"] or not _agreed(target, shrink):
            return
        if any(cooldown.lasts(now_s) and not cooldown.out for cooldown in target.cooldowns.values()):
            return
        self._move(target, capacity, max(shrink, key=lambda desired: desired.capacity), now_s)

    def _desired_capacity(
        self, target: Target, policy: Policy, breach: Breach, capacity: Capacity, now_s: float
    ) -> DesiredCapacity | None:
        cooldown = target.cooldowns.get(policy.name)
        growing = cooldown is not None and cooldown.out and cooldown.lasts(now_s)
        stale = breach.newest_s is not None and breach.newest_s < target.changed_s
        tracking = policy.tracking
        if tracking is None:
            # What a scale-out in its cooldown has added already counts towards the next one.
            base = cooldown.base if (growing or stale) and cooldown is not None else capacity.desired
            past = breach.points[-1] - breach.threshold if breach.points and breach.threshold is not None else 0.0
            wanted = step_capacity(policy.steps, base, past)
            return None if wanted is None else DesiredCapacity(policy, breach.alarm, wanted)
        if not breach.points:
            return None
        target_value = float(tracking["TargetValue"])
        if breach.points[-1] > target_value:
            serving = cooldown.base if (growing or stale) and cooldown is not None else capacity.current
            wanted = tracking_capacity(serving, breach.points[-1], target_value)
            return DesiredCapacity(policy, breach.alarm, max(wanted, capacity.desired))
        if tracking.get("DisableScaleIn") or (breach.oldest_s is not None and breach.oldest_s < target.grown_s):
            return None
        return DesiredCapacity(
            policy, breach.alarm, tracking_capacity(capacity.current, max(breach.points), target_value)
        )

    def _move(self, target: Target, capacity: Capacity, desired: DesiredCapacity, now_s: float) -> None:
        bounded = max(target.min_capacity, min(target.max_capacity, desired.capacity))
        out = desired.capacity > capacity.desired
        if (bounded > capacity.desired) != out or bounded == capacity.desired:
            reason: Document = {"Code": "AlreadyAtMinCapacity", "MinCapacity": target.min_capacity}
            if out:
                reason = {"Code": "AlreadyAtMaxCapacity", "MaxCapacity": target.max_capacity}
            self._not_scaled(target, desired.cause, {**reason, "CurrentCapacity": capacity.desired}, now_s)
            return
        if not capacity.steady:
            reason = {"Code": "TargetServicePutResourceAsUnscalable", "CurrentCapacity": capacity.desired}
            self._not_scaled(target, desired.cause, reason, now_s)
            return
        if self._set(target, capacity, bounded, desired.cause, now_s):
            if out:
                target.cooldowns = {name: one for name, one in target.cooldowns.items() if one.out}
            target.cooldowns[desired.policy.name] = Cooldown(out, capacity.desired)

    # --------------------------------------------------------------------------------------- schedules and bounds

    def _run_schedules(self, target: Target, after_s: float, now_s: float) -> None:
        if target.suspended["ScheduledScalingSuspended"]:
            return
        after, until = self._clock.calendar(after_s), self._clock.calendar(now_s)
        for name, action in list(target.scheduled.items()):
            if is_due(action.request, self._clock.calendar(action.created_s), after, until):
                self._run_scheduled(target, name, action.request.get("ScalableTargetAction") or {}, now_s)

    def _run_scheduled(self, target: Target, name: str, action: dict[str, int], now_s: float) -> None:
        low, high = (
            int(action.get("MinCapacity", target.min_capacity)),
            int(action.get("MaxCapacity", target.max_capacity)),
        )
        told = " and ".join(
            f"{side} capacity to {action[key]}"
            for side, key in (("min", "MinCapacity"), ("max", "MaxCapacity"))
            if key in action
        )
        activity = Activity(f"Setting {told}", f"scheduled action name {name} was triggered", now_s)
        target.note(activity)
        if low > high:
            activity.end(now_s, "Failed", f"Maximum capacity ({high}) cannot be less than minimum capacity ({low}).")
            return
        target.min_capacity, target.max_capacity, target.bounds_changed = low, high, True
        activity.end(now_s, "Successful", f"Successfully set {told}")

    def _enforce_bounds(self, target: Target, now_s: float) -> None:
        """A capacity outside of changed bounds is moved to the nearer one, as soon as the service takes it."""
        capacity = self._scaled.capacity(target)
        if capacity is None or not capacity.steady:
            return
        target.bounds_changed = False
        if capacity.desired < target.min_capacity:
            cause = f"minimum capacity was set to {target.min_capacity}"
            self._set(target, capacity, target.min_capacity, cause, now_s)
        elif capacity.desired > target.max_capacity:
            cause = f"maximum capacity was set to {target.max_capacity}"
            self._set(target, capacity, target.max_capacity, cause, now_s)

    # ------------------------------------------------------------------------------------------------- activities

    def _set(self, target: Target, before: Capacity, wanted: int, cause: str, now_s: float) -> bool:
        set_to = f"set desired {target.counted} to {wanted}"
        activity = Activity(f"Setting desired {target.counted} to {wanted}.", cause, now_s)
        target.note(activity)
        try:
            self._scaled.set_capacity(target, wanted)
        except AwsError as error:
            activity.end(now_s, "Failed", f"Failed to {set_to}: {error.message}")
            return False
        activity.message = f"Successfully {set_to}. Waiting for change to be fulfilled by sagemaker."
        target.under_way, target.growing = activity, wanted > before.desired
        return True

    def _settle(self, target: Target, activity: Activity, now_s: float) -> None:
        """End the activity under way once its change is complete; then its policy's cooldown begins."""
        capacity = self._scaled.capacity(target)
        if capacity is not None and not capacity.steady and capacity.failure is None:
            return
        target.under_way, target.changed_s = None, now_s
        if target.growing:
            target.grown_s = now_s
        if capacity is None or capacity.failure is not None:
            activity.end(now_s, "Failed", capacity.failure or "" if capacity else "The resource is gone.")
        else:
            done = activity.message.partition(" Waiting")[0]
            activity.end(now_s, "Successful", f"{done} Change successfully fulfilled by sagemaker.")
        for name, cooldown in list(target.cooldowns.items()):
            policy = target.policies.get(name)
            if policy is None:
                del target.cooldowns[name]
            elif cooldown.until_s is None:
                cooldown.until_s = now_s + _cooldown_s(policy, cooldown.out)

    def _not_scaled(self, target: Target, cause: str, reason: Document, now_s: float) -> None:
        """Told once, not every minute that the alarm lasts."""
        last = target.activities[-1] if target.activities else None
        if last is not None and last.not_scaled == reason and last.cause == cause:
            return
        activity = Activity("Attempting to scale due to alarm triggered", cause, now_s, not_scaled=reason)
        activity.end(now_s, "Failed", "")
        target.note(activity)


def _agreed(target: Target, shrink: Sequence[DesiredCapacity]) -> bool:
    """Whether all target tracking policies that may scale in want to, if it is they who ask."""
    asking = {desired.policy.name for desired in shrink}
    if any(desired.policy.tracking is None for desired in shrink):
        return True
    return all(
        name in asking
        for name, policy in target.policies.items()
        if policy.tracking and not policy.tracking.get("DisableScaleIn")
    )


def _cooldown_s(policy: Policy, out: bool) -> float:
    if policy.tracking is not None:
        return float(policy.tracking.get("ScaleOutCooldown" if out else "ScaleInCooldown", _DEFAULT_COOLDOWN_S))
    return float(policy.steps.get("Cooldown", _DEFAULT_COOLDOWN_S))
