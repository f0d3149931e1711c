"""Random runs in virtual time, hostile on purpose, and what must hold after each: deterministic simulation testing."""
