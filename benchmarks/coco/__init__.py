"""Functions of an independent benchmark of optimizers."""
