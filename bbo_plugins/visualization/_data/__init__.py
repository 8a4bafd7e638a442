"""The content of the plots, computed once for both plotting packages."""
