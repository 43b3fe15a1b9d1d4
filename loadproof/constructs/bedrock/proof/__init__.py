"""The model is asked once after a deployment."""
