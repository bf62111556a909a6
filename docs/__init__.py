"""Pages that are made from what was measured."""
