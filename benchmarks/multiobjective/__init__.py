"""Several objectives: hypervolume that is missing."""
