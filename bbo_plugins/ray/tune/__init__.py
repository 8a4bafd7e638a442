"""Everything that knows Ray Tune's insides."""
