"""What came back: records, metrics, intervals."""
