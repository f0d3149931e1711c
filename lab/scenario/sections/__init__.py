"""Sections of a scenario beside fabric, traffic, faults and expectations."""
