"""How fast the controller provisions many switches."""
