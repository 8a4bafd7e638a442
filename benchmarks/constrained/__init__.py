"""Studies with black-box constraints."""
