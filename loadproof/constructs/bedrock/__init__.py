"""A profile's model on Bedrock: what is invoked, who may, and what on-call sees."""
