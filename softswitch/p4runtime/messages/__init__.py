"""P4Runtime messages: addresses, values, matches, actions, statuses."""
