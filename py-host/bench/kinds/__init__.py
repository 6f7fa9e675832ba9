"""What can be timed: a module each, whose ``run`` returns its tables."""
