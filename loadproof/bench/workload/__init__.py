"""What requests look like: arrivals, prompts, data sets, traces."""
