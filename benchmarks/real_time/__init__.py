"""Times the parts of recognition on one core and on two, beside the same encoder exported from PyTorch."""
