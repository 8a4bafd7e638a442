"""A study's storage: the trials read, the attributes written."""
