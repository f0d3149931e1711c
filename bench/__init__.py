"""How fast the parts are on this machine, beside the best peer at hand. Each needs root and a quiet machine."""
