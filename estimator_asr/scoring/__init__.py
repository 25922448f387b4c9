"""Edit distance, error rates with confidence intervals, reports."""
