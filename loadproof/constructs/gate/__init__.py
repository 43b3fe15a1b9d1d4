"""What a missed objective does to a deployment."""
