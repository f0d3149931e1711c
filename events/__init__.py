"""Records of the history, one class per kind: what each process of a run writes down, with types and units."""
