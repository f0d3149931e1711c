"""How long a lab of real processes takes to come up, by parts, and what its switches weigh."""
