"""Formulas of the papers as free functions of numbers and arrays."""
