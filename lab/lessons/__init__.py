"""Lessons that are graded: what each wants, checked on the learner's file or on what happened in the running lab."""
