"""What to do about a plan: other machines and servers for the same workload, and settings, each predicted and ranked.

The closed forms of `loadproof.capacity` search; what they would set, the twin (`loadproof.simulation`) must confirm.
"""

from loadproof.advice.alternatives import Alternative, Alternatives, Goal, Recommendation, SettingAdvice
from loadproof.advice.comparison import Constraints, Settled, find_alternatives, settle
from loadproof.advice.settings import advise

__all__ = [
    "Alternative",
    "Alternatives",
    "Constraints",
    "Goal",
    "Recommendation",
    "SettingAdvice",
    "Settled",
    "advise",
    "find_alternatives",
    "settle",
]
