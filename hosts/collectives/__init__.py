"""Collective operations among the ranks of a job, over the verbs of lib_mrc.so; they know nothing of PyTorch.

`mesh` joins the ranks and carries their messages, `algorithms` has the collectives, `steps` the reports of a job's
steps.
"""
