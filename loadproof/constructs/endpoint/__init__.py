"""The endpoint: models, configuration, components, the role of its containers, proof of what runs."""
