"""Other programs with which the course is compared, built when they are needed."""
