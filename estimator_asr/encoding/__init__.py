"""Records of log-mel features turned into records of a frozen encoder's outputs."""
