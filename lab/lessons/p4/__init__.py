"""Lessons 2 and 3: the learner's P4 program and P4Runtime controller."""
