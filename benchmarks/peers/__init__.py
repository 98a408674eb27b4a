"""What the course is measured beside: programs of other makes, built when they are needed."""
