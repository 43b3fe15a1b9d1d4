"""From recorded traffic to a workload: captures read and stripped, shapes and arrivals fitted."""
