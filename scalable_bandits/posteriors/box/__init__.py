"""The posterior on a whole box, its maximisation, and its sample paths."""
