"""Random hostile runs in virtual time, and invariants checked after each: deterministic simulation testing."""
