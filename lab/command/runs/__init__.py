"""Commands that run scenarios: one, many, a training job; and the plan of one."""
