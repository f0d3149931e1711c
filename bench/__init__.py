"""Speed of the parts on this machine, beside the best peer at hand. Each needs root and a quiet machine."""
