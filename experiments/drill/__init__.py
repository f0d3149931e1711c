"""What a run does when something of the lab is killed, stopped, filled, removed or flooded at a random moment."""
