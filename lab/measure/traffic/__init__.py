"""Measures of traffic: flows, goodput, completion times, pauses, training steps."""
