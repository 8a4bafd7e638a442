"""The papers' methods: ask/tell mathematics over plain arrays, without any tuning framework."""
