"""What the plots show, computed once for both plotting packages."""
