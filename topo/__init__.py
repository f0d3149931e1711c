"""The fabric: a pure model (spec, model, srv6, linkcheck, numbers) and its realisation in namespaces (emulation)."""
