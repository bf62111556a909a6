"""The oracle: every formula once more, slowly, with explicit loops and nothing from the package."""
