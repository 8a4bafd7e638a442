"""What the samplers share."""
