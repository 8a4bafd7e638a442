"""What is read from a study and written to it."""
