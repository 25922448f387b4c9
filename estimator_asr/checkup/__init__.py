"""What doctor looks at."""
