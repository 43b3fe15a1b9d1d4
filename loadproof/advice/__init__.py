"""What to do about a plan: other machines and servers for the same workload, and settings, each predicted and ranked.

The closed forms of `loadproof.capacity` search; what they would set, the twin (`loadproof.simulation`) must confirm.
"""
