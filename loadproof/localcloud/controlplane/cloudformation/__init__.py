"""CloudFormation: templates are applied through the same APIs that a person would call, in dependency order.

Our own rather than moto's: rollback, replacement before removal, per-resource events, propagation of changed ids and
refusal of what is not supported are the whole point of deploying here before deploying there.
"""
