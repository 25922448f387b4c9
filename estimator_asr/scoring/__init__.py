"""Edit distance, error rates with confidence intervals, and reports."""
