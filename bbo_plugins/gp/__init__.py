"""The Gaussian-process core: kernel, prior, likelihood, fit, posterior; numpy and scipy.linalg."""
