"""What every benchmark uses: samplers, records and tables."""
