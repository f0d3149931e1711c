"""Records of the history, one class per kind, with types and units of the fields."""
