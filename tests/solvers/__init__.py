"""Batch methods: naive twins and what holds for them."""
