"""Commands that run scenarios: one, many, a training job; and what would be built for one."""
