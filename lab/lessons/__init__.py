"""Graded lessons: checks of the learner's file or of the running lab's history."""
